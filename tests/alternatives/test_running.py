"""Which rows are made, in which folders, and what is read of earlier calls."""

from pathlib import Path

import pytest

from prunus.alternatives.alternative import Shipped
from prunus.alternatives.running import plan_rows, read
from prunus.alternatives.table import ALTERNATIVES
from prunus.errors import MissingExtraError, UnknownNameError
from prunus.files import write_json
from prunus.run_folder import ENDING, Ending, RunFolder
from tests.makers.tiny_training import tiny_recipe

RECIPE = tiny_recipe(seed=5)
OUT = Path("out")


def test_all_alternatives_are_made_with_the_recipe_as_it_is() -> None:
    rows = plan_rows(RECIPE, OUT, (), (), ())
    assert [row.name for row in rows] == list(ALTERNATIVES)
    assert {row.trained for row in rows} == {OUT / "seed5" / "trained"}
    assert [row.folder for row in rows] == [OUT / "seed5" / name for name in ALTERNATIVES]
    assert all(row.recipe == RECIPE for row in rows)
    assert rows[-1].title == "Prunus, int8"


def test_ours_always_takes_part() -> None:
    assert [row.name for row in plan_rows(RECIPE, OUT, ["lora"], (), ())] == ["lora", "ours", "ours_int8"]


def test_seeds_repeat_every_row_and_budgets_those_that_have_one() -> None:
    rows = plan_rows(RECIPE, OUT, ["probe", "pruned"], [0.3, 1.0], [0, 1, 0])
    names = ["probe", "pruned", "ours", "ours-1", "ours_int8", "ours_int8-1"]
    assert [row.name for row in rows] == names * 2
    assert [row.recipe.seed for row in rows] == [0] * 6 + [1] * 6
    larger = rows[3]
    assert larger.recipe.budget.kernels == 1.0
    assert larger.trained == OUT / "seed0" / "trained-1"
    assert larger.title.endswith(", 1 of the kernels")


def test_other_budgets_learn_from_the_networks_that_taught_the_first() -> None:
    taught = RECIPE.model_copy(update={"teacher": "finetune"})
    rows = plan_rows(taught, OUT, ["finetuned"], [0.5, 1.0], ())
    assert [row.name for row in rows if row.teacher is None] == ["finetuned", "ours", "ours_int8"]
    others = [row for row in rows if row.name.endswith(("-0.5", "-1"))]
    assert len(others) == 4
    assert {row.teacher for row in others} == {OUT / "seed5" / "trained" / "teacher"}
    assert {row.recipe.teacher for row in rows} == {"finetune"}
    elsewhere = RECIPE.model_copy(update={"teacher": "runs/large"})
    assert all(row.teacher is None for row in plan_rows(elsewhere, OUT, ["probe"], [0.5], ()))


def test_another_budget_is_trained_with_the_teacher_that_is_there(tmp_path: Path) -> None:
    taught = RECIPE.model_copy(update={"teacher": "finetune"})
    (row,) = (
        row for row in plan_rows(taught, tmp_path / "x" / ".." / "out", ["probe"], [0.5], ()) if row.name == "ours-0.5"
    )
    assert row.teacher is not None
    assert row.to_train() == row.recipe  # nobody is there yet
    write_json(RunFolder(row.teacher).ending, ENDING.dump_python(Ending(1, {}, 1.0, False), mode="json"))
    teacher = tmp_path / "out" / "seed5" / "trained" / "teacher"
    assert row.to_train().teacher == str(teacher.resolve())
    for stored, expected in (
        ("finetune", "finetune"),  # begun by an earlier version
        ("/before/it/was/moved/seed5/trained/teacher", "/before/it/was/moved/seed5/trained/teacher"),
        ("/runs/large", str(teacher.resolve())),  # another recipe, which is refused
        (None, str(teacher.resolve())),
    ):
        begun = taught.model_copy(update={"teacher": stored})
        write_json(RunFolder(row.trained).recipe, begun.model_dump(mode="json"))
        assert row.to_train().teacher == expected


def test_unknown_names_and_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'probe'"):
        plan_rows(RECIPE, OUT, ["prob"], (), ())
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch_pruning" else object())
    with pytest.raises(MissingExtraError, match=r"torch-pruning, which is not installed.*prunus\[versus\]"):
        plan_rows(RECIPE, OUT, ["pruned"], (), ())
    assert plan_rows(RECIPE, OUT, ["lora"], (), ())


def test_a_damaged_file_counts_as_none(tmp_path: Path) -> None:
    assert read(tmp_path / "shipped.json", Shipped) is None
    (tmp_path / "shipped.json").write_text('{"recipe')
    assert read(tmp_path / "shipped.json", Shipped) is None
