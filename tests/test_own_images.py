"""The first ten minutes with one's own images: messy folders, from `init` to `predict`, without editing the recipe."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from prunus.cli.app import app

ENDINGS = (".png", ".JPG", ".tiff", ".gif", ".webp", ".bmp")
ART, BIRDS, TOOLS = "My-Art", "Vogel", "Werkzeug-2024"
Prunus = Callable[..., str]


def _paint(folder: Path, images: int, colour: tuple[int, int, int]) -> None:
    """Write images of one colour with noise, in all formats in turn."""
    folder.mkdir(parents=True)
    for number in range(images):
        noise = np.random.default_rng([*colour, number]).integers(-20, 21, (24, 20 + number, 3))
        image = Image.fromarray((np.array(colour) + noise).clip(0, 255).astype(np.uint8))
        image.save(folder / f"bild {number}{ENDINGS[number % len(ENDINGS)]}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of three domains as people have them."""
    folder = tmp_path_factory.mktemp("own")
    data = folder / "data"
    for label, colour in (("Pop Art", (200, 40, 40)), ("Impressionnisme é", (40, 200, 40)), ("抽象", (40, 40, 200))):
        _paint(data / "My Art" / label, 12, colour)
    (data / "My Art" / "unsorted").mkdir()
    (data / "My Art" / "Pop Art" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 cut off")
    inside = data / "Vögel" / "archive" / "images"
    for split, images in (("Train", 9), ("valid", 2), ("Testing", 4)):
        _paint(inside / split / "Möwe", images, (220, 220, 220))
        _paint(inside / split / "Eule", images, (120, 80, 40))
    for split, images in (("training", 9), ("val", 3)):
        _paint(data / "Werkzeug (2024)" / split / "hammer", images, (90, 90, 90))
        _paint(data / "Werkzeug (2024)" / split / "saw", images, (200, 160, 90))
    for name in ("__MACOSX/My Art/._bild 0.png", ".DS_Store", "My Art/.DS_Store", "My Art/Pop Art/Thumbs.db"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(b"left by a computer")
    (data / "Vögel" / "archive" / "LICENSE.txt").write_text("CC0")
    (data / "Werkzeug (2024)" / "training" / "hammer" / "all").symlink_to("/")
    return folder


@pytest.fixture
def prunus(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Prunus:
    """A function that runs a command in the folder and returns what it prints."""
    monkeypatch.chdir(folder)

    def run(command: str, status: int = 0) -> str:
        arguments = shlex.split(command)[1:]
        result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
        assert result.exit_code == status, f"{command}\n{result.output}\n{result.exception!r}"
        return result.stdout

    return run


@pytest.mark.slow
def test_messy_folders_become_a_model_without_a_change_to_the_recipe(folder: Path, prunus: Prunus) -> None:
    _initialise(folder, prunus)
    _check(prunus)
    prunus("prunus train recipe.toml --out runs/first --set training.epochs=6")
    measured = json.loads(prunus("prunus evaluate runs/first --json"))
    assert set(measured["domains"]) >= {ART, BIRDS}
    assert measured["union"] <= 0.25
    accuracies = {name: domain["accuracy"] for name, domain in measured["domains"].items()}
    assert min(accuracies[ART], accuracies[BIRDS]) > 0.6, accuracies  # by chance: 1/3 and 1/2
    prunus("prunus report runs/first")
    page = (folder / "report.html").read_text()
    assert all(name in page for name in (ART, BIRDS))
    prunus("prunus prune runs/first --out model.prunus")
    for name, image, label in (
        (ART, "data/My Art/抽象/bild 2.tiff", "抽象"),
        (BIRDS, "data/Vögel/archive/images/Testing/Eule/bild 3.gif", "Eule"),
        (TOOLS, "data/Werkzeug (2024)/val/saw/bild 1.JPG", "saw"),
    ):
        answer = json.loads(prunus(f"prunus predict model.prunus {shlex.quote(image)} --json"))
        assert answer[0]["domain"] == name  # called like the folder
        assert label in [guess["label"] for guess in answer[0]["predictions"]]


def _initialise(folder: Path, prunus: Prunus) -> None:
    output = prunus("prunus init data")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines() if "│" in line]
    assert rows == [  # classes, images, train, validation, test
        [ART, "3", "37", "27", "3", "7"],
        [BIRDS, "2", "30", "18", "4", "8"],
        [TOOLS, "2", "24", "18", "6", "0"],
    ]
    assert f"{ART}: class folders without splits" in output
    assert f"{BIRDS}: split folders archive/images/Testing, archive/images/Train, archive/images/valid" in output
    commands = [line.strip() for line in output.splitlines() if line.startswith("  prunus ")]
    steps = ["check", "plan", "train", "evaluate", "report", "prune", "predict"]
    assert [command.split()[1] for command in commands] == steps
    assert Path(shlex.split(commands[-1])[3]).is_file()
    assert (folder / "recipe.toml").read_text().count("[[domains]]") == 3


def _check(prunus: Prunus) -> None:
    """The broken image is an error for a folder; the recipe skips it."""
    folders, recipe = (
        prunus("prunus check data", status=1).splitlines(),
        prunus("prunus check recipe.toml").splitlines(),
    )
    problems = [line for line in folders if line.startswith(("error", "warning"))]
    assert problems[0].startswith(f"error {ART}: Pop Art/broken.jpg: cannot read")
    assert [line.split()[0] for line in problems] == ["error"] + ["warning"] * (len(problems) - 1)
    for part in (
        f"warning {ART}: unsorted/: the folder has no image",
        f"warning {BIRDS}: archive/LICENSE.txt: not an image",
        f"warning {TOOLS}: there is no test split",
        f"warning {TOOLS}: training/hammer/all: not an image",
    ):
        assert any(line.startswith(part) for line in problems), part
    assert folders[-1].startswith("1 error, ")
    assert recipe[-1].startswith("0 errors, ")
    assert f"the domain in 'My Art' is called {ART!r}" in folders
    assert not any("MACOSX" in line or "DS_Store" in line or "Thumbs" in line for line in [*folders, *recipe])
