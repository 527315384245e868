"""One predictor serves all domains: mixed batches, many threads, little memory, and clear errors."""

import json
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prunus.arrays import Bytes, Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import write_bundle
from prunus.bundle.header import FORMAT_VERSION
from prunus.errors import BundleError, DataError, PrunusError, UnknownNameError
from prunus.runtime import Predictor
from tests.makers.graph_bundles import convolution, make_graph, random_bundle, varied_graph
from tests.makers.masked_networks import masked_network, packed, zoo_backbone

ROOT = Path(__file__).parents[2]
NAMES = ("a", "b", "c")
ENGINES = ("auto", "numpy")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.prunus"
    write_bundle(path, random_bundle(varied_graph(3), 12, domains=NAMES, density=0.4))
    return path


@pytest.fixture(params=ENGINES)
def predictor(request: pytest.FixtureRequest, model: Path, monkeypatch: pytest.MonkeyPatch) -> Predictor:
    monkeypatch.setenv("PRUNUS_ENGINE", request.param)
    return Predictor(model)


def _images(count: int, size: int = 12) -> Floats:
    return np.random.default_rng(0).standard_normal((count, 3, size, size)).astype(np.float32)


def _pictures(count: int) -> list[Bytes]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (14, 20, 3), dtype=np.uint8) for _ in range(count)]


def test_logits_of_a_mixed_batch_are_those_of_separate_calls(predictor: Predictor) -> None:
    images, names = _images(11), list("abcacbbacba")
    mixed = predictor.logits(images, names)
    assert len(mixed) == 11
    for index, name in enumerate(names):
        np.testing.assert_allclose(
            mixed[index], predictor.logits(images[index : index + 1], name)[0], rtol=1e-5, atol=1e-5
        )
    others = predictor.logits(images, names[::-1])
    assert not np.allclose(mixed[0], predictor.logits(images[:1], "b")[0], atol=0.1)
    np.testing.assert_allclose(others[5], mixed[5], rtol=1e-5, atol=1e-5)  # the one in the middle keeps its domain


def test_predictions_of_a_mixed_batch_are_those_of_separate_calls(predictor: Predictor) -> None:
    pictures, names = _pictures(5), ("b", "a", "c", "a", "b")
    mixed = predictor.predict(pictures, names, top=2)
    for picture, name, predictions in zip(pictures, names, mixed, strict=True):
        (alone,) = predictor.predict(picture, name, top=2)
        assert [prediction.label for prediction in predictions] == [prediction.label for prediction in alone]
        probabilities = [prediction.probability for prediction in predictions]
        np.testing.assert_allclose(probabilities, [prediction.probability for prediction in alone], atol=1e-5)
        assert probabilities == sorted(probabilities, reverse=True)
    ten = predictor.predict(pictures, names, top=3, crops=10)
    assert all(abs(sum(prediction.probability for prediction in predictions) - 1) < 1e-5 for predictions in ten)


def test_one_image_has_the_same_kind_of_result_as_several(predictor: Predictor) -> None:
    picture = _pictures(1)[0]
    alone, together = predictor.predict(picture, "a"), predictor.predict([picture], "a")
    assert alone == together == predictor(picture, "a")
    (result,) = alone
    assert (result.domain, result.label, result.probability) == ("a", result[0].label, result[0].probability)
    assert [prediction.label for prediction in result] == [prediction.label for prediction in result.predictions]
    assert len(result[:2]) == 2


def test_a_model_of_one_domain_needs_no_domain(tmp_path: Path) -> None:
    write_bundle(tmp_path / "model.prunus", random_bundle(varied_graph(3), 12, domains=("only",), density=0.4))
    predictor = Predictor(tmp_path / "model.prunus")
    assert predictor(_pictures(2)) == predictor.predict(_pictures(2)) == predictor(_pictures(2), "only")


def test_a_predictor_says_what_it_holds(predictor: Predictor, model: Path) -> None:
    manifest = predictor.bundle.manifest
    assert predictor.classes == {name: tuple(manifest.domains[name].classes) for name in NAMES}
    assert predictor.domains == NAMES
    assert (predictor.path, predictor.image_size) == (model, 12)
    counts = ", ".join(f"{name}: 3 classes" for name in NAMES)
    assert repr(predictor) == f"<Predictor {str(model)!r} ({counts}; 12 px, engine {predictor.engine})>"


def test_a_repr_of_many_domains_is_short(tmp_path: Path) -> None:
    write_bundle(tmp_path / "m.prunus", random_bundle(varied_graph(3), 12, [f"d{number}" for number in range(9)]))
    assert "d4: 3 classes, and 4 more domains; 12 px" in repr(Predictor(tmp_path / "m.prunus"))


def test_a_path_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(PrunusError, match="a model file must be a path, got 3"):
        Predictor(3)  # type: ignore[arg-type]


def test_nothing_gives_nothing(predictor: Predictor) -> None:
    assert predictor.logits(_images(0), "a").shape == (0, 3)
    assert predictor.logits(_images(0), []) == []
    assert predictor.predict([], "a") == []
    assert predictor.predict([], []) == []


NOT_FINITE = {name: np.full((2, 3, 12, 12), name, np.float32) for name in ("nan", "inf", "-inf")}
WRONG: dict[str, tuple[Callable[[Predictor], Any], type[PrunusError], str]] = {
    "size": (lambda p: p.logits(_images(2, 13), "a"), DataError, r"\(N, 3, 12, 12\), got \(2, 3, 13, 13\)"),
    "rank": (lambda p: p.logits(_images(2)[0], "a"), DataError, r"\(N, 3, 12, 12\), got \(3, 12, 12\)"),
    "channels": (lambda p: p.logits(_images(2)[:, :1], "a"), DataError, r"\(N, 3, 12, 12\), got \(2, 1, 12, 12\)"),
    "order": (lambda p: p.logits(_images(2).transpose(0, 2, 3, 1), "a"), DataError, r"got \(2, 12, 12, 3\)"),
    "dtype": (lambda p: p.logits(np.zeros((1, 3, 12, 12)), "a"), DataError, "float32, got float64"),
    "bytes": (lambda p: p.logits(np.zeros((1, 3, 12, 12), np.uint8), "a"), DataError, "float32, got uint8"),
    "list": (lambda p: p.logits([[1.0]], "a"), DataError, "float32, got list"),
    "domain": (lambda p: p.logits(_images(1), "d"), UnknownNameError, "unknown domain 'd'; known: a, b, c"),
    "domain of one": (lambda p: p.logits(_images(2), ["a", "d"]), UnknownNameError, "unknown domain 'd'; known: a"),
    "domain of none": (lambda p: p.predict([], "d"), UnknownNameError, "unknown domain 'd'; known: a, b, c"),
    "too few domains": (
        lambda p: p.logits(_images(3), ["a"]),
        DataError,
        "3 images need one domain or a list of 3; got 1",
    ),
    "too many domains": (
        lambda p: p.predict(_pictures(1), ["a", "b"]),
        DataError,
        "1 image needs .* or a list of 1; got 2",
    ),
    "one image, many domains": (
        lambda p: p.predict(_pictures(1)[0], ["a"]),
        DataError,
        "one image takes one domain name",
    ),
    "picture of whole numbers": (
        lambda p: p.predict(np.zeros((4, 4, 3), np.int64), "a"),
        DataError,
        r"uint8, got \(4, 4, 3\) int64",
    ),
    "empty picture": (lambda p: p.predict(np.zeros((0, 4, 3), np.uint8), "a"), DataError, r"uint8, got \(0, 4, 3\)"),
    "missing picture": (lambda p: p.predict("no/such.png", "a"), DataError, "there is no image no/such.png"),
    "top": (lambda p: p.predict(_pictures(1)[0], "a", top=0), PrunusError, "whole number of at least 1, got 0"),
    "part of a top": (lambda p: p.predict(_pictures(1), "a", top=1.5), PrunusError, "top must be .* got 1.5"),
    "no top": (lambda p: p.predict(_pictures(1), "a", top=None), PrunusError, "top must be .* got None"),
    "true top": (lambda p: p.predict(_pictures(1), "a", top=True), PrunusError, "top must be .* got True"),
    "no images": (lambda p: p.predict(None, "a"), DataError, "an image must be a path, .*; got None"),
    "images of none": (lambda p: p.predict([None], "a"), DataError, "an image must be a path, .*; got None"),
    "no logits of none": (lambda p: p.logits(None, "a"), DataError, "float32, got NoneType"),
    "one image, no domain": (lambda p: p(_pictures(1)[0]), DataError, "several domains; got none; known: a, b, c"),
    "images, no domain": (lambda p: p.predict(_pictures(2), None), DataError, "must be a name.* known: a, b, c"),
    "crops": (lambda p: p.predict(_pictures(1)[0], "a", crops=3), DataError, "1, 5, 10, got 3"),
} | {
    name: (lambda p, images=images: p.logits(images, "a"), DataError, "numbers that are not finite")
    for name, images in NOT_FINITE.items()
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused_with_both_sides_named(predictor: Predictor, name: str) -> None:
    call, kind, message = WRONG[name]
    with pytest.raises(PrunusError, match=message) as caught:
        call(predictor)
    assert caught.type is kind
    assert np.isfinite(predictor.logits(_images(1), "a")).all()  # it works on


@pytest.mark.parametrize("domain", [None, 3, b"x", [None], [["a"]], {"a": 1}])
def test_a_domain_that_is_no_name_is_refused(predictor: Predictor, domain: Any) -> None:  # noqa: ANN401
    for call in (lambda: predictor.logits(_images(1), domain), lambda: predictor.predict(_pictures(1), domain)):
        with pytest.raises(DataError, match=r"domain must be a name, .* got .*; known: a, b, c"):
            call()


def test_one_number_that_is_not_finite_is_found_wherever_it_is(predictor: Predictor) -> None:
    for index in ((0, 0, 0, 0), (8, 1, 5, 7), (10, 2, 11, 11)):
        images = _images(11)
        images[index] = np.inf
        with pytest.raises(DataError, match="not finite"):
            predictor.logits(images, "b")


@pytest.mark.parametrize("engine", ENGINES)
def test_answers_that_numbers_too_large_made_infinite_are_refused(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRUNUS_ENGINE", engine)
    graph = make_graph(convolution("plain", [0], (8, 3)), convolution("after", [1], (8, 8)))
    write_bundle(tmp_path / "m.prunus", random_bundle(graph, 12, density=1.0))
    predictor = Predictor(tmp_path / "m.prunus")
    images = np.stack([_images(1)[0], np.full((3, 12, 12), 1e38, np.float32)])
    domains: tuple[Any, ...] = ("a", ["b", "a"])
    for domain in domains:
        with pytest.raises(DataError, match=r"logits of domain 'a' are not finite: .* as large as 1e\+38"):
            predictor.logits(images, domain)
    assert np.isfinite(predictor.logits(images[:1], "a")).all()


def test_whole_numbers_of_numpy_are_whole_numbers(model: Path) -> None:
    predictor = Predictor(model, threads=np.int64(2))  # type: ignore[arg-type]
    assert len(predictor.predict(_pictures(1)[0], "a", top=np.uint8(2))[0]) == 2  # type: ignore[arg-type]


def test_a_file_of_another_format_version_is_refused(model: Path, tmp_path: Path) -> None:
    content = model.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    (key,) = header["__metadata__"]
    metadata = json.loads(header["__metadata__"][key]) | {"format_version": FORMAT_VERSION + 1}
    text = json.dumps(header | {"__metadata__": {key: json.dumps(metadata)}}).encode()
    other = tmp_path / "newer.prunus"
    other.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    with pytest.raises(
        BundleError,
        match=rf"format version {FORMAT_VERSION + 1}, but .* reads 3, 4 and {FORMAT_VERSION}; update Prunus",
    ):
        Predictor(other)


@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("threads", [1, 2])
def test_python_threads_may_share_a_predictor(model: Path, count: int, threads: int) -> None:
    predictor, images = Predictor(model, threads=threads), _images(3)
    expected = {name: Predictor(model).logits(images, name) for name in NAMES}
    wrong: list[str] = []
    done: list[str] = []

    def work(number: int) -> None:
        for step in range(30):
            name = NAMES[(number + step // 10) % 3]
            if not np.array_equal(predictor.logits(images, name), expected[name]):
                wrong.append(name)
        done.append(str(number))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (wrong, len(done)) == ([], count)


def test_what_a_predictor_gave_outlives_it_and_it_needs_its_bundle_no_more(model: Path) -> None:
    predictor, images = Predictor(model), _images(2)
    expected = predictor.logits(images, "a").copy()
    predictor.bundle.arrays.clear()  # the engine keeps the kernels that it reads
    filler = [np.full(1000, np.nan, np.float32) for _ in range(500)]
    logits = predictor.logits(images, "a")
    del predictor
    assert len(filler) == 500
    assert np.array_equal(logits, expected)


CLASSES = dict.fromkeys("abcde", ("x", "y", "z"))


@pytest.fixture(scope="module")
def five_domains(tmp_path_factory: pytest.TempPathFactory) -> Path:
    backbone = zoo_backbone("wrn28_4", 64)
    bundle: Bundle = packed(masked_network(backbone, CLASSES, ["half"]), backbone, CLASSES)
    path = tmp_path_factory.mktemp("five") / "five.prunus"
    write_bundle(path, bundle)
    return path


@pytest.mark.slow
def test_switching_between_domains_costs_less_than_a_millisecond(five_domains: Path) -> None:
    predictor, image = Predictor(five_domains), _images(1, 64)

    def seconds(name: str) -> float:
        began = time.perf_counter()
        predictor.logits(image, name)
        return time.perf_counter() - began

    for name in predictor.domains:
        seconds(name)
    staying, switching = [1.0], [2.0]
    for _ in range(8):  # a busy machine makes any of them longer, none shorter: measure until both were undisturbed
        for name in ("a", "b") * 25:  # the first call of each pair comes from the other domain, the second stays
            switching.append(seconds(name))
            staying.append(seconds(name))
        if min(switching) - min(staying) < 1e-3:
            break
    assert min(switching) - min(staying) < 1e-3


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak")
def test_models_of_five_domains_take_little_more_memory_than_their_files(tmp_path: Path) -> None:
    # a network of 3x3 windows and one of 1x1, in all precisions; a miss is an error
    networks = ["--network", "wrn28_4", "--network", "timm/mobilenetv2_100"]
    command = [
        sys.executable,
        "-m",
        "benchmarks.loaded_memory",
        *networks,
        "--json",
        str(tmp_path / "m.json"),
    ]
    environment = {key: value for key, value in os.environ.items() if key != "PRUNUS_ENGINE"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "m.json").read_text())["rows"]
    assert len(rows) == 12
    assert all(row["loaded"] < 1.5 * row["file"] for row in rows if row["file"] > 5e6)
