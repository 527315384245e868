"""Additions that are repeated, refused before anything is trained, or made with images and teachers of one's own."""

import re
from pathlib import Path

import pytest
from torch import Tensor
from typing_extensions import override

import prunus
from prunus.backbone.own import registry
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import read_bundle, write_bundle
from prunus.errors import BackboneError, BundleError, RecipeError, TrainingError
from prunus.run_folder import DomainEnding, Ending, RunFolder
from prunus.training.observers import Observer
from prunus.verbs.prune import limits_of_file
from tests.makers.leaf_models import SETTINGS

pytestmark = pytest.mark.slow


class Noting(Observer):
    """Keeps the notes, and the steps of every run."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.runs = 0

    @override
    def noted(self, message: str) -> None:
        self.notes.append(message)

    @override
    def started(self, step: int, total_steps: int) -> None:
        self.runs += 1


def test_the_budget_is_kept_when_a_domain_that_has_grown_is_trained_again(base: Path, cars: Path) -> None:
    grown, again, more = (base.with_name(f"{name}.prunus") for name in ("grown", "again", "more"))
    prunus.add_domain(base, cars, grown, grow="10%", teacher=None, settings=SETTINGS, observers=[])
    for model, out, grow in ((grown, again, None), (again, more, "10%")):
        prunus.add_domain(
            model, cars, out, replace=True, grow=grow, teacher=None, settings=(*SETTINGS, "seed=1"), observers=[]
        )
    budgets = {"model": 0.5, "grown": 0.6, "again": 0.6, "more": 0.7}
    for name, budget in budgets.items():
        file = base.with_name(f"{name}.prunus")
        assert read_bundle(file).manifest.provenance["recipe"]["budget"] == pytest.approx(budget)
        assert all(limit.kept for limit in limits_of_file(file))
    assert prunus.remove_domain(more, "cars", base.with_name("back.prunus")).read_bytes() == base.read_bytes()


def test_the_budget_is_kept_when_a_domain_leaves_whose_kernels_another_one_uses(base: Path, cars: Path) -> None:
    grown, both, left = (base.with_name(f"{name}.prunus") for name in ("g", "both", "left"))
    prunus.add_domain(base, cars, grown, grow="10%", teacher=None, settings=SETTINGS, observers=[])
    prunus.add_domain(grown, cars, both, name="vans", teacher=None, settings=SETTINGS, observers=[])
    prunus.remove_domain(both, "cars", left)
    assert limits_of_file(left)
    assert all(limit.kept for limit in limits_of_file(left))


def with_recipe(model: Path, file: Path, **changes: object) -> Path:
    """Write a model file whose recipe says something else."""
    bundle = read_bundle(model)
    origin = bundle.manifest.provenance | {"recipe": bundle.manifest.provenance["recipe"] | changes}
    write_bundle(file, Bundle(bundle.manifest.model_copy(update={"provenance": origin}), bundle.arrays))
    return file


@pytest.mark.parametrize(("key", "value"), [("budget", "x"), ("method", {"name": 7})])
def test_a_recipe_that_cannot_be_read_is_refused_before_training(
    base: Path, cars: Path, tmp_path: Path, key: str, value: object
) -> None:
    odd = with_recipe(base, tmp_path / "odd.prunus", **{key: value})
    with pytest.raises(BundleError, match=r"odd\.prunus records a recipe that cannot be read: recipe key"):
        prunus.add_domain(odd, cars, tmp_path / "x.prunus", teacher=None, settings=SETTINGS, observers=[])
    assert [path.name for path in tmp_path.iterdir()] == ["odd.prunus"]


@pytest.mark.parametrize("options", [{}, {"weights": "backbone.safetensors"}, {"grow": "5%", "teacher": None}])
def test_an_own_network_that_is_not_registered_is_asked_for(
    base: Path, cars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str | None]
) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", {})
    with pytest.raises(
        BackboneError,
        match=r"the model file was made from your own network 'leaf_net', which is not registered here; "
        r"in Python pass backbone=MODULE, or install a package that registers it",
    ) as caught:
        prunus.add_domain(base, cars, tmp_path / "x.prunus", settings=SETTINGS, observers=[], **options)  # type: ignore[arg-type]
    assert ("the argument teacher=None trains without it" in str(caught.value)) == ("grow" not in options)
    prunus.add_domain(base, cars, tmp_path / "y.prunus", teacher=None, settings=SETTINGS, observers=[])


def test_a_run_is_not_begun_again_inside_itself(base: Path, cars: Path, tmp_path: Path) -> None:
    def add(run: Path, out: str, **options: object) -> Path:
        return prunus.add_domain(base, cars, tmp_path / out, run=run, observers=[], **options)  # type: ignore[arg-type]

    add(tmp_path / "krun", "a.prunus", teacher=None, settings=SETTINGS)
    with pytest.raises(TrainingError, match=re.escape(f"the argument run={str(tmp_path / 'krun')!r}")):
        add(tmp_path / "krun" / "run", "b.prunus", teacher=None, settings=SETTINGS)
    with pytest.raises(TrainingError, match=r"begun with other settings \(.*; pass the argument settings and the arg"):
        add(tmp_path / "krun", "b.prunus")
    with pytest.raises(TrainingError, match=r"begun with other settings \(training\.batch_size: 8 -> 16\)"):
        add(tmp_path / "krun", "b.prunus", teacher=None, settings=("training.batch_size=16",))
    assert [path.name for path in (tmp_path / "krun").iterdir()] == ["run"]  # no teacher was trained


def test_every_training_image_is_transformed(base: Path, cars: Path, tmp_path: Path) -> None:
    seen = []

    def darker(image: Tensor) -> Tensor:
        seen.append(tuple(image.shape))
        return image // 2

    files = [tmp_path / "a.prunus", tmp_path / "b.prunus"]
    settings = (*SETTINGS, "training.workers=0")
    for file, transform in zip(files, (None, darker), strict=True):
        prunus.add_domain(base, cars, file, teacher=None, settings=settings, observers=[], transform=transform)
    assert seen
    recipes = [read_bundle(file).manifest.provenance["added"]["cars"]["recipe"] for file in files]
    assert [recipe["training"]["augment"] for recipe in recipes] == [[], ["python"]]
    assert files[0].read_bytes() != files[1].read_bytes()


def ending(reached: float | None, frozen: float | None) -> Ending:
    return Ending(1, {"cars": DomainEnding(1.0, 0.5, 24, reached, frozen)}, 1.0, has_switches=False)


def test_a_domain_learns_without_a_teacher_that_misleads(
    base: Path, cars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        RunFolder, "read_ending", lambda folder: ending(0.56, 0.9) if "teacher" in str(folder.path) else None
    )
    watching = Noting()
    for out in ("a.prunus", "b.prunus"):  # and continues without it
        prunus.add_domain(
            base, cars, tmp_path / out, settings=SETTINGS, observers=[watching], progress=False, run=tmp_path / "run"
        )
    assert [note for note in watching.notes if "the teacher is left out" in note] == [
        "the teacher is left out: it classifies 56.0% of the validation images of 'cars' correctly, "
        "a linear classifier on frozen features 90.0%; train it for longer with training.epochs"
    ] * 2
    assert watching.runs == 2
    added = read_bundle(tmp_path / "a.prunus").manifest.provenance["added"]["cars"]
    assert added["recipe"].get("teacher") is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"name": ""}, "a domain name has letters from A to Z, digits"),
        ({"grow": 0}, "the argument grow must be a share of the original network's kernels above 0, such as 5%; got 0"),
        ({"grow": "0"}, "the argument grow must be a share .* got '0'"),
        ({"grow": "much"}, "the argument grow must be a share .* got 'much'"),
        ({"grow": 1.5}, "the argument grow must be a share .* got 1.5"),
        ({"settings": "training.epochs=1"}, r"settings must be a list, as in \['training\.epochs=10'\]; got the text"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(
    base: Path, cars: Path, tmp_path: Path, options: dict[str, object], problem: str
) -> None:
    with pytest.raises(RecipeError, match=problem):
        prunus.add_domain(base, cars, tmp_path / "x.prunus", observers=[], **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
