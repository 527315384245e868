"""Small image domains, made on the spot."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from PIL import Image

from tests.makers.decathlon import write_decathlon

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # workers share the cores; before anything imports torch
os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does; before anything imports torch
# on a busy machine the time of one example says nothing; make sweep draws many more examples
settings.register_profile("tests", deadline=None, max_examples=50)
settings.register_profile("sweep", deadline=None, max_examples=2000)
settings.load_profile("tests")

# files of half a minute or more: started late, one would run while the other processes have nothing left to do
LONGEST = (
    "test_docs.py",
    "test_contract.py",
    "test_torchrun.py",
    "test_compare.py",
    "test_kill.py",
    "test_demo.py",
    "test_run.py",
    "test_sweep.py",
    "test_kept_budgets.py",
    "test_keeper.py",
    "test_sanitizers.py",
    "test_learner_in_processes.py",
    "test_coarse_switches.py",
    "test_networks.py",
    "test_golden.py",
    "test_end_to_end.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest files first."""
    order = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


def write_domain(
    root: Path,
    classes: Sequence[str] = ("a", "b"),
    train: int = 4,
    test: int = 2,
    validation: int = 0,
    size: tuple[int, int] = (8, 8),
) -> Path:
    """Write a folder domain: every class has its colour, every image its own noise."""
    for split, count in (("train", train), ("validation", validation), ("test", test)):
        for label, index in ((label, index) for label in classes for index in range(count)):
            file = f"{split}/{label}/{index}.png"
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            _noise(zlib.crc32(label.encode()), zlib.crc32(file.encode()), size).save(root / file)
    return root


@pytest.fixture
def make_domain(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a folder domain by its name."""
    return lambda name="domain", *arguments, **options: write_domain(tmp_path / name, *arguments, **options)


@pytest.fixture
def decathlon(tmp_path: Path) -> Path:
    """A miniature decathlon-1.0 folder, with the test labels in `labels` beside it."""
    return write_decathlon(tmp_path / "decathlon-1.0")


@pytest.fixture
def make_zip() -> Callable[[Path], Path]:
    """A function that packs a folder, including empty folders, into a zip file beside it."""

    def make(folder: Path) -> Path:
        path = folder.with_name(f"{folder.name}.zip")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for entry in sorted(folder.rglob("*")):
                file.write(entry, entry.relative_to(folder).as_posix())
        return path

    return make


def _noise(colour_seed: int, seed: int, size: tuple[int, int]) -> Image.Image:
    colour = np.random.default_rng(colour_seed).integers(32, 224, 3)
    noise = np.random.default_rng(seed).integers(-24, 25, (size[1], size[0], 3))
    return Image.fromarray((colour + noise).astype(np.uint8))


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep decoded images out of the user's real cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
