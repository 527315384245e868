"""Errors that the user can fix are one line on stderr that begins with `error:`, with a non-zero exit code."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from prunus.cli.app import GROUPS, main

TINY = """
backbone = "wrn14_2"
domains = ["flowers"]
[training]
epochs = 1
batch_size = 4
"""


@pytest.fixture
def recipe(make_domain: Callable[..., Path], tmp_path: Path) -> Path:
    make_domain("flowers")
    path = tmp_path / "recipe.toml"
    path.write_text(TINY)
    return path


@pytest.fixture
def complaint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., str]:
    """Return a function that runs a command, expects it to fail properly and returns its message."""

    def run(*arguments: str | Path) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["prunus", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 1
        return only_line(capsys.readouterr().err)

    return run


def only_line(stderr: str) -> str:
    lines = stderr.splitlines()
    assert len(lines) == 1, stderr
    assert lines[0].startswith("error: ")
    return lines[0]


@pytest.mark.slow
def test_the_installed_command_fails_in_one_line_too(recipe: Path) -> None:
    call = [sys.executable, "-c", "from prunus.cli.app import main; main()"]
    arguments = ["train", str(recipe), "--out", "run", "--set", "budgt=1"]
    done = subprocess.run([*call, *arguments], capture_output=True, text=True, check=False, cwd=recipe.parent)
    assert done.returncode == 1
    assert "unknown recipe key 'budgt'; did you mean 'budget'?" in only_line(done.stderr)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("budgt=0.5", "unknown recipe key 'budgt'; did you mean 'budget'?"),
        ("training.epoch=5", "unknown recipe key 'training.epoch'; did you mean 'training.epochs'?"),
        ("training.epochs", "expected key=value"),
        ("backbone=wrn14_3", "unknown backbone 'wrn14_3'; did you mean 'wrn14_2'?"),
        ("backbone=timm/resnet5o", "resnet5o"),
        ("backbone={name = 'wrn14_2', weights = 'gone.safetensors'}", "gone.safetensors"),
        ("backbone={name = 'wrn14_2', weights = 'recipe.toml'}", "recipe.toml"),
        ("backbone={name = 'wrn14_2', resize = 16}", "resize"),
        ("sharing.loss=unoin", "unknown sharing loss 'unoin'; did you mean 'union'?"),
        ("method=tapps", "unknown method 'tapps'; did you mean 'taps'?"),
        ("training.strategy=individual", "strategy 'individual' trains each domain alone"),
        ("training.lr=inf", "training.lr"),
        ("seed=99999999999999999999999999", "seed"),
        ("budget=0", "'budget.kernels'"),
        ("budget=1.5", "'budget.kernels'"),
        ("budget=-1", "'budget.kernels'"),
        ("budget=a", "'budget.kernels'"),
        ("domains=['flower']", "'flower'; did you mean 'flowers'?"),
        ("domains=['no/where']", "there is no folder or zip file"),
        ("domains=['demo:fasion']", "unknown demo domain 'fasion'; did you mean 'fashion'?"),
        ("domains=['recipe.toml']", "recipe.toml is not a readable zip file"),
        ("domains=['flowers', 'flowers']", "two domains are called 'flowers'"),
    ],
)
def test_a_recipe_that_cannot_be_trained_is_refused_and_leaves_no_run(
    complaint: Callable[..., str], recipe: Path, override: str, message: str
) -> None:
    assert message in complaint("train", recipe, "--out", "run", "--set", override)
    assert not (recipe.parent / "run").exists()


def test_a_contradiction_between_method_and_sharing_is_refused(complaint: Callable[..., str], recipe: Path) -> None:
    said = complaint("train", recipe, "--out", "run", "--set", "method=ba2", "--set", "sharing.loss=jaccard")
    assert "method 'ba2' does not use the sharing loss 'jaccard'; use method = \"jaccard\"" in said


def test_a_device_that_is_not_there_is_refused(complaint: Callable[..., str], recipe: Path) -> None:
    assert "the device 'abacus' cannot be used" in complaint("train", recipe, "--out", "run", "--device", "abacus")


def test_a_missing_recipe_is_refused(complaint: Callable[..., str]) -> None:
    assert "no recipe file at gone.toml" in complaint("train", "gone.toml", "--out", "run")


def test_a_folder_and_a_name_without_its_ending_are_not_recipes(complaint: Callable[..., str], recipe: Path) -> None:
    (recipe.parent / "My Pictures").mkdir()
    for command in (["plan"], ["train", "--out", "run"]):
        said = complaint(*command, "My Pictures")
        assert "is a folder, not a recipe; write a recipe for its images with: prunus init 'My Pictures'" in said
        assert f"did you mean '{recipe.name}'?" in complaint(*command, recipe.stem)


@pytest.mark.parametrize("command", ["plan gone.toml", "train gone.toml --out run", "train recipe.toml"])
def test_what_a_look_at_the_disk_shows_is_said_without_importing_torch(recipe: Path, command: str) -> None:
    program = "import sys; sys.modules['torch'] = None; from prunus.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *command.split()],
        cwd=recipe.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "torch" not in done.stderr
    assert "no recipe file at gone.toml" in done.stderr or "pass a recipe and a folder" in done.stderr


def test_a_recipe_that_is_no_toml_is_refused(complaint: Callable[..., str], recipe: Path) -> None:
    recipe.write_text("backbone = ")
    assert "is not valid TOML" in complaint("train", recipe, "--out", "run")


def test_an_empty_class_is_refused(complaint: Callable[..., str], recipe: Path) -> None:
    (recipe.parent / "flowers" / "train" / "void").mkdir()
    assert "train/void/: the class has no image" in complaint("train", recipe, "--out", "run")


def test_a_corrupt_image_is_refused_by_its_name(complaint: Callable[..., str], recipe: Path) -> None:
    (recipe.parent / "flowers" / "train" / "a" / "2.png").write_bytes(b"no image")
    said = complaint("train", recipe, "--out", "run", "--final")
    assert "cannot read train/a/2.png of domain 'flowers'" in said
    assert said.endswith("; fix or remove it, or skip such images with --set skip_bad_images=true")


COMMANDS = {command.__name__.replace("_", "-"): command for group in GROUPS.values() for command in group}


@pytest.mark.parametrize("name", ["train", "demo", "pretrain", "add-domain", "compare", "versus", "sweep"])
def test_every_command_that_trains_has_the_option_that_skips_bad_images(name: str) -> None:
    assert inspect.signature(COMMANDS[name]).parameters["overrides"].annotation == "Overrides"


def test_a_class_of_corrupt_images_is_refused_even_where_they_may_be_skipped(
    complaint: Callable[..., str], recipe: Path
) -> None:
    for file in (recipe.parent / "flowers" / "train" / "a").iterdir():
        file.write_bytes(b"")
    said = complaint("train", recipe, "--out", "run", "--skip-bad-images")
    assert "no train image of class 'a' can be read" in said


def test_a_damaged_zip_is_refused_by_the_name_of_its_member(
    complaint: Callable[..., str], recipe: Path, make_zip: Callable[[Path], Path]
) -> None:
    path = make_zip(recipe.parent / "flowers")
    content = bytearray(path.read_bytes())
    first = content.index(b"train/a/0.png") + len(b"train/a/0.png")
    content[first : first + 40] = b"\xff" * 40
    path.write_bytes(content)
    said = complaint("train", recipe, "--out", "run", "--final", "--set", "domains=['flowers.zip']")
    assert "train/a/0.png" in said


def test_train_without_a_folder_for_the_run_is_refused(complaint: Callable[..., str], recipe: Path) -> None:
    assert "pass a recipe and a folder" in complaint("train", recipe)
    assert "pass a recipe and a folder" in complaint("train")


def test_a_folder_that_already_holds_a_run_is_refused_and_left_alone(
    complaint: Callable[..., str], recipe: Path
) -> None:
    (recipe.parent / "run").mkdir()
    (recipe.parent / "run" / "recipe.json").write_text("{}")
    assert "run already holds a run; continue it with: prunus train --resume run" in complaint(
        "train", recipe, "--out", "run"
    )
    assert [file.name for file in (recipe.parent / "run").iterdir()] == ["recipe.json"]


def test_a_run_folder_that_is_a_file_is_refused(complaint: Callable[..., str], recipe: Path) -> None:
    (recipe.parent / "run").write_text("mine")
    assert "cannot write" in complaint("train", recipe, "--out", "run")
    assert (recipe.parent / "run").read_text() == "mine"


@pytest.mark.parametrize("folder", ["gone", "flowers"])
def test_resuming_a_folder_that_holds_no_run_is_refused(
    complaint: Callable[..., str], recipe: Path, folder: str
) -> None:
    assert f"{folder} holds no run to resume" in complaint("train", "--resume", folder)


def test_resuming_into_another_folder_or_with_changes_is_refused(complaint: Callable[..., str], recipe: Path) -> None:
    assert "remove --out" in complaint("train", "--resume", "flowers", "--out", "run")
    assert "flowers holds no run to resume" in complaint("train", "--resume", "flowers", "--set", "seed=1")


@pytest.mark.parametrize("command", ["evaluate", "prune"])
@pytest.mark.parametrize("target", ["gone", "flowers"])
def test_measuring_and_pruning_what_is_no_run_are_refused(
    complaint: Callable[..., str], recipe: Path, command: str, target: str
) -> None:
    assert target in complaint(command, target)
    assert not (recipe.parent / "model.prunus").exists()


def test_an_unknown_split_is_refused(complaint: Callable[..., str]) -> None:
    assert "unknown split 'tests'; did you mean 'test'?" in complaint("evaluate", "run", "--split", "tests")


def test_a_missing_model_file_is_refused(complaint: Callable[..., str]) -> None:
    assert "there is no model file gone.prunus" in complaint("predict", "gone.prunus", "x.png", "--domain", "a")


@pytest.mark.parametrize("content", [b"", b"some text that is long enough to be a header"])
def test_a_foreign_file_is_no_model(complaint: Callable[..., str], tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.prunus").write_bytes(content)
    for arguments in (["predict", "model.prunus", "x.png", "--domain", "a"], ["evaluate", "model.prunus"]):
        assert "model.prunus is damaged or not a Prunus model" in complaint(*arguments)


def test_checking_a_missing_place_is_refused(complaint: Callable[..., str], recipe: Path) -> None:
    assert "'flower'; did you mean 'flowers'?" in complaint("check", "flower")


def test_a_name_with_colons_is_repeated_as_it_was_written(complaint: Callable[..., str]) -> None:
    assert "a:apple:b[red]" in complaint("evaluate", "a:apple:b[red]")


def test_an_unknown_backbone_cannot_be_described(complaint: Callable[..., str]) -> None:
    assert "unknown backbone 'wrn14_3'" in complaint("zoo", "wrn14_3")
