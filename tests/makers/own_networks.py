"""A small network and images as a user would write them, and a package that registers the network."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from prunus.arrays import Bytes
from prunus.config import Recipe
from prunus.recipes import parse_recipe, parse_toml

SIZE = 16
CLASSES = ("dark", "light")


class LeafNet(nn.Module):
    """Two convolutions with norms, and the mean over the image."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 12, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(12)

    def forward(self, images: Tensor) -> Tensor:
        x = torch.relu(self.norm1(self.conv1(images)))
        return torch.relu(self.norm2(self.conv2(x))).mean((2, 3))


class Classifying(LeafNet):
    """The same network with its classifier."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.fc = nn.Linear(12, classes)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.fc(super().forward(images))
        return logits


def leaf_net(seed: int = 0) -> LeafNet:
    """Return the network with random weights, the same for the same seed."""
    torch.manual_seed(seed)
    return LeafNet()


def pictures(count: int = 20, seed: int = 0) -> tuple[list[Bytes], list[int]]:
    """Return dark and light images in turn, each with noise of its own, and their labels."""
    rng = np.random.default_rng(seed)
    labels = [index % 2 for index in range(count)]
    return [(rng.integers(0, 60, (SIZE, SIZE, 3)) + 180 * label).astype(np.uint8) for label in labels], labels


def leaf_recipe(domains: Sequence[str] = ("python:shades",), **changes: object) -> Recipe:
    """Return a recipe that trains the network in a second."""
    content: dict[str, object] = {
        "backbone": {"name": "leaf_net", "size": SIZE, "mean": [0.5] * 3, "std": [0.25] * 3},
        "domains": list(domains),
        "budget": 0.5,
        "training": {"epochs": 2, "batch_size": 8},
    }
    return parse_recipe(content | changes)


PAGE = Path(__file__).parents[2] / "docs" / "own.md"


def _block(first_line: str) -> str:
    """Return the code block of the page that begins with a line."""
    blocks = re.findall(r"^```\w+\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(next(block for block in blocks if block.startswith(f"# {first_line}\n")))


def install_package(folder: Path, code: str | None = None) -> Path:
    """Write the package of the page as pip installs it, and return the folder for sys.path or PYTHONPATH."""
    project = cast("dict[str, Any]", parse_toml(_block("pyproject.toml"))["project"])
    ((group, entries),) = project["entry-points"].items()
    lines = [f"{name} = {module}" for name, module in entries.items()]
    (folder / "leaf_package").mkdir(parents=True)
    (folder / "leaf_package" / "__init__.py").write_text("")
    (folder / "leaf_package" / "network.py").write_text(code or _block("leaf_package/network.py"))
    info = folder / "leaf_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    return folder
