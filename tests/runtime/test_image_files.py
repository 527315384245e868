"""Image files are found in folders and patterns, each with its domain."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prunus.bundle.file import write_bundle
from prunus.errors import DataError
from prunus.runtime.image_files import BATCH, domains_of, find_images, predict_files
from prunus.runtime.predictor import Predictor
from tests.makers.graph_bundles import random_bundle, varied_graph


def _write(*paths: Path) -> None:
    for seed, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(seed).integers(0, 256, (14, 14, 3), np.uint8)).save(path, "PNG")


def test_folders_patterns_and_files_are_listed_in_order(tmp_path: Path) -> None:
    _write(tmp_path / "a" / "2.png", tmp_path / "a" / "b" / "1.PNG", tmp_path / "c.png", tmp_path / "a" / ".x.png")
    inside = [tmp_path / "a" / "2.png", tmp_path / "a" / "b" / "1.PNG"]
    assert find_images([tmp_path / "a", tmp_path / "*.png"]) == [*inside, tmp_path / "c.png"]
    assert find_images([tmp_path / "**" / "*.PNG"]) == [inside[1]]
    assert find_images([tmp_path / "gone.png"]) == [tmp_path / "gone.png"]
    _write(tmp_path / "odd[1].png")
    assert find_images([tmp_path / "odd[1].png"]) == [tmp_path / "odd[1].png"]  # a name, not a pattern


def test_the_nearest_folder_that_is_named_like_a_domain_decides() -> None:
    images = [Path("/x/birds/flowers/1.png"), Path("/x/my art/deep/2.png"), Path("/x/My_Art/3.png")]
    images += [Path("/x/Vögel/4.png"), Path("/x/花/5.png")]
    domains = ("birds", "flowers", "My-Art", "Vogel", "domain-b0a1ea")
    assert domains_of(images, domains) == ["flowers", "My-Art", "My-Art", "Vogel", "domain-b0a1ea"]
    assert domains_of([Path("/x/1.png")], ["only"]) == ["only"]
    with pytest.raises(DataError, match=r"the domain of /x/1.png is not known, .* one of birds, flowers, My-Art"):
        domains_of([*images, Path("/x/1.png")], domains)


def test_relative_images_use_the_folder_that_they_lie_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "birds").mkdir()
    monkeypatch.chdir(tmp_path / "birds")
    assert domains_of([Path("1.png")], ("birds", "flowers")) == ["birds"]


def test_results_of_batches_are_those_of_single_images(tmp_path: Path) -> None:
    write_bundle(tmp_path / "m.prunus", random_bundle(varied_graph(3), 12, ("a", "b")))
    predictor = Predictor(tmp_path / "m.prunus")
    files = [tmp_path / f"{number}.png" for number in range(BATCH + 3)]
    _write(*files)
    files[5].write_bytes(b"no image")
    domains = ["ab"[number % 2] for number in range(len(files))]
    results = list(predict_files(predictor, files, domains, top=2))
    assert [result.image for result in results] == files
    for result, domain in zip(results, domains, strict=True):
        if result.image == files[5]:
            assert (result.result, "5.png" in (result.error or "")) == (None, True)
            continue
        (expected,) = predictor(result.image, domain, top=2)
        assert result.result is not None
        assert (result.error, result.domain) == (None, expected.domain)
        assert [guess.label for guess in result.result] == [guess.label for guess in expected]
        np.testing.assert_allclose(
            [guess.probability for guess in result.result], [guess.probability for guess in expected], atol=1e-5
        )
