"""A miniature of the Visual Decathlon in its exact layout."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from prunus.benchmarks import DECATHLON

COLOURS = [(220, 40, 40), (40, 200, 60), (50, 60, 220)]
SETS = ("aircraft", "dtd")
HOSTILE_JSON = ["{}", "[1]", '[{"image_id": 1}]', "x", "", "[" * 100_000, '[{"image_id": 1e999, "category_id": 1}]']


def write_picture(path: Path, label: int, seed: int, size: tuple[int, int] = (72, 72)) -> None:
    noise = np.random.default_rng(seed).integers(-20, 21, (size[1], size[0], 3))
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((np.array(COLOURS[label]) + noise).clip(0, 255).astype(np.uint8)).save(path, quality=90)


def write_set(root: Path, name: str, counts: dict[str, int], classes: int, rng: random.Random) -> None:
    """Write one set: ids and images in random order, test images flat and unlabelled, their labels elsewhere."""
    number = DECATHLON.find(name).number
    categories = [{"id": number * 10**7 + c + 1, "name": f"kind {c + 1}"} for c in range(classes)]
    for split, count in counts.items():
        images: list[dict[str, Any]] = []
        annotations: list[dict[str, Any]] = []
        ids = rng.sample(range(1, 1000), count * classes)
        for index, image in enumerate(ids):
            label = index % classes
            inside = f"data/{name}/{split}" + ("" if split == "test" else f"/{label + 1:04d}")
            file = f"{inside}/{image:06d}.jpg"
            write_picture(root / file, label, image)
            whole = number * 10**7 + {"train": 0, "val": 10**5, "test": 2 * 10**5}[split] + image
            images.append({"id": whole, "file_name": f"decathlon-1.0/{file}", "width": 72, "height": 72})
            annotations.append({"id": whole, "image_id": whole, "category_id": number * 10**7 + label + 1})
        rng.shuffle(images)
        rng.shuffle(annotations)
        rng.shuffle(categories)
        content = {"images": images, "annotations": annotations, "categories": categories}
        folder = root.parent / "labels" if split == "test" else root / "annotations"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}_{split}.json").write_text(json.dumps(content))
        if split == "test":
            stripped = {"images": images, "categories": categories}
            (root / "annotations" / f"{name}_test_stripped.json").write_text(json.dumps(stripped))


def write_decathlon(root: Path) -> Path:
    """Write a decathlon-1.0 folder with two sets, of three and of two colours, and their test labels beside it."""
    rng = random.Random(5)
    write_set(root, "aircraft", {"train": 8, "val": 2, "test": 4}, 3, rng)
    write_set(root, "dtd", {"train": 8, "val": 2, "test": 4}, 2, rng)
    return root


def edit_json(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the content of a JSON file."""
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
