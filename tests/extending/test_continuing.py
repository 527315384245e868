"""How the run of an addition becomes a model file."""

from pathlib import Path

import pytest

from prunus.config import Recipe
from prunus.errors import TrainingError
from prunus.extending.continuing import check_folder, check_same, finishing_command
from prunus.methods.table import with_method
from prunus.recipes import parse_recipe
from prunus.run_folder import RunFolder

ENDS = "(with --set, --weights and --replace as before)"


def an_addition(**changes: object) -> Recipe:
    content = {"backbone": "/m/my model.prunus", "domains": [{"path": "/d/My Cars"}], "method": "exact", "budget": 1.0}
    return parse_recipe(content | changes)


def test_the_command_names_the_folder_that_holds_the_run_and_every_choice(tmp_path: Path) -> None:
    run = tmp_path / "krun" / "run"
    start = "prunus add-domain '/m/my model.prunus' '/d/My Cars' --name My-Cars"
    end = f"--run {tmp_path / 'krun'} --out OUT.prunus {ENDS}"
    assert finishing_command(an_addition(), run) == f"{start} --teacher none {end}"
    assert finishing_command(an_addition(teacher="/t"), run) == f"{start} --teacher /t {end}"
    assert finishing_command(an_addition(teacher=str(tmp_path / "krun" / "teacher")), run) == f"{start} {end}"
    grown = an_addition(backbone={"name": "/m/my model.prunus", "original": "pretrained"}, budget=0.05)
    assert finishing_command(grown, run) == f"{start} --grow 0.05 --teacher none {end}"
    passed = an_addition(domains=[{"path": "python:cars"}])
    assert " IMAGES --name cars " in finishing_command(passed, run)


def test_a_teacher_that_was_left_out_is_no_other_choice(tmp_path: Path) -> None:
    teacher = RunFolder(tmp_path / "teacher")
    teacher.path.mkdir()
    teacher.recipe.write_text(an_addition().model_dump_json())
    assert "--teacher" not in finishing_command(an_addition(), tmp_path / "run")


def test_the_folder_above_the_working_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"--run {tmp_path.parent} " in finishing_command(an_addition(), Path())
    assert "--run . " in finishing_command(an_addition(), Path("run"))


def test_the_folder_of_a_run_is_not_the_folder_of_an_addition(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "krun" / "run")
    check_folder(run.path)  # nothing is there
    run.path.mkdir(parents=True)
    run.recipe.write_text(an_addition().model_dump_json())
    check_folder(tmp_path / "krun")
    with pytest.raises(TrainingError, match="is a run itself; to continue an addition, name the folder that holds"):
        check_folder(run.path)


def test_the_run_of_another_addition_is_refused(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    check_same(an_addition(), run.path)  # nothing is there
    run.path.mkdir()
    run.recipe.write_text(with_method(an_addition(training={"epochs": 3})).model_dump_json())
    check_same(an_addition(), run.path)  # a length that is left open is that of the run
    with pytest.raises(TrainingError, match=r"begun with other settings \(training\.epochs: 3 -> 4\); pass the"):
        check_same(an_addition(training={"epochs": 4}), run.path)
    with pytest.raises(TrainingError, match=r"\(teacher: None -> /t\)"):
        check_same(an_addition(teacher="/t"), run.path)
