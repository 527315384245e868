"""Images and a model of the small own network, to which domains are added."""

import warnings
from pathlib import Path

import numpy as np
from PIL import Image

import prunus
from tests.makers.own_networks import SIZE, leaf_net

SETTINGS = ("training.epochs=8", "training.batch_size=8")


def write_images(folder: Path, seed: int, count: int = 12) -> Path:
    """Write dark and light pictures in three splits."""
    rng = np.random.default_rng(seed)
    for split in ("train", "validation", "test"):
        for label, name in enumerate(("dark", "light")):
            (folder / split / name).mkdir(parents=True)
            for index in range(count):
                pixels = rng.integers(0, 80, (SIZE, SIZE, 3)) + 120 * label
                Image.fromarray(pixels.astype(np.uint8)).save(folder / split / name / f"{index}.png")
    return folder


def register_leaf_net(seed: int = 0) -> None:
    prunus.register_backbone(
        "leaf_net", lambda: leaf_net(seed), size=SIZE, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25)
    )


def write_model(folder: Path) -> Path:
    """Train and prune a model of two domains; the run is beside the file."""
    domains = [str(write_images(folder / name, seed)) for seed, name in enumerate(("first", "second"))]
    content = {"backbone": "leaf_net", "domains": domains, "budget": 0.5, "training": {"epochs": 2, "batch_size": 8}}
    prunus.train(prunus.parse_recipe(content), folder / "run", observers=[])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", prunus.BudgetWarning)  # so small a network is smaller than its masks and norms
        return prunus.prune(folder / "run", folder / "model.prunus")
