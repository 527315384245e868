"""A plan says what the file will have, from the recipe and the names of files alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import prunus
from prunus.config import Recipe
from prunus.errors import RecipeError
from prunus.evaluation.planning import plan_recipe
from prunus.measure.inspection import PARTS, REST
from prunus.recipes import parse_recipe
from prunus.training.run import start_run
from prunus.verbs.prune import limits_of_file

KERNELS, WEIGHTS = 75_312, 677_808  # of wrn14_2
MakeRecipe = Callable[..., Recipe]


@pytest.fixture
def make_recipe(make_domain: Callable[..., Path]) -> MakeRecipe:
    """A function that returns a recipe for two small domains."""
    domains = [
        str(make_domain("birds", classes=("owl", "wren"), train=6, validation=2)),
        str(make_domain("signs", classes=("go", "stop", "yield"), train=6, validation=2)),
    ]
    content: dict[str, object] = {
        "backbone": {"name": "wrn14_2", "size": 16, "resize": 18},
        "domains": domains,
        "method": "exact",
        "training": {"epochs": 2, "batch_size": 4, "lr": 0.05},
    }
    return lambda **changes: parse_recipe(content | changes)


def _spoil(recipe: Recipe) -> None:
    """Replace all images by files that no program can decode."""
    for choice in recipe.domains:
        for file in Path(choice.path).rglob("*.png"):
            file.write_bytes(b"not an image")


def test_a_share_of_kernels_is_planned_exactly_without_decoding_an_image(make_recipe: MakeRecipe) -> None:
    recipe = make_recipe(budget=0.25, dtype="float16")
    _spoil(recipe)
    plan = plan_recipe(recipe)
    assert (plan.dense_kernels, plan.dense_weights) == (KERNELS, WEIGHTS)
    assert plan.kernels == KERNELS // 4
    assert plan.weights == 9 * plan.kernels  # all kernels of this network are 3 x 3
    (limit,) = plan.limits
    assert (limit.name, limit.used, limit.limit, limit.kept, plan.binding) == (
        *("kernels", KERNELS // 4, KERNELS // 4, True),
        "kernels",
    )
    assert list(plan.bytes_by_part) == [*PARTS.values(), REST]
    assert sum(plan.bytes_by_part.values()) == plan.model_bytes
    assert plan.bytes_by_part[PARTS["kernels"]] == 2 * plan.weights  # float16
    assert plan.bytes_by_part[PARTS["heads"]] == 2 * (128 + 1) * (2 + 3)
    assert plan.bytes_by_part[PARTS["norms"]] > 0  # each domain will have its own
    assert [(domain.classes, domain.images) for domain in plan.domains.values()] == [(2, 12), (3, 18)]
    for domain in plan.domains.values():
        assert 0 < domain.macs < plan.dense_macs
        assert domain.macs_ratio == domain.macs / plan.dense_macs
    assert (plan.epochs, plan.steps) == (2, 2 * (3 + 5))
    assert plan.is_exact


@pytest.mark.slow
def test_the_limit_that_is_used_most_is_named(make_recipe: MakeRecipe) -> None:
    plan = plan_recipe(make_recipe(budget={"kernels": 0.9, "macs": "1 M"}))
    assert plan.binding == "macs"
    assert 980_000 <= max(domain.macs for domain in plan.domains.values()) <= 1_000_000
    assert plan.kernels < 0.9 * KERNELS
    assert plan_recipe(make_recipe(budget={"bytes": "100 MB"})).binding is None  # all of the network is within it
    own = plan_recipe(make_recipe(budget={"kernels": 0.5, "macs": {"signs": "1 M"}}))
    assert own.domains["signs"].macs <= 1_000_000 < own.domains["birds"].macs


@pytest.mark.slow
def test_a_budget_that_empties_layers_is_kept_with_a_word(make_recipe: MakeRecipe) -> None:
    plan = plan_recipe(make_recipe(budget={"macs": "3 k"}))
    assert max(domain.macs for domain in plan.domains.values()) <= 3_000
    assert re.match(r"the budget leaves \d+ of 13 layers without any kernel that is read", plan.notes[0])


@pytest.mark.parametrize(
    ("method", "sentence"),
    [("union", "the size of the file is known only after training"), ("bn", "method 'bn' has no budget")],
)
def test_a_method_without_limits_has_the_costs_of_the_dense_network(
    make_recipe: MakeRecipe, method: str, sentence: str
) -> None:
    plan = plan_recipe(make_recipe(method=method, budget=0.25))
    assert (plan.is_exact, plan.kernels, plan.weights, plan.model_bytes) == (False, KERNELS, WEIGHTS, None)
    assert (plan.limits, plan.binding, plan.bytes_by_part) == ((), None, {})
    assert all(domain.macs == plan.dense_macs for domain in plan.domains.values())
    assert sentence in plan.notes[0]


def test_the_macs_of_adapters_are_counted(make_recipe: MakeRecipe) -> None:
    plan = plan_recipe(make_recipe(method="parallel_adapters", budget=0.25))
    assert all(domain.macs > plan.dense_macs for domain in plan.domains.values())


@pytest.mark.parametrize("name", ["timm/test_vit", "wrn14_2"])
def test_a_plan_says_why_the_shares_of_kernels_and_weights_differ(name: str, make_recipe: MakeRecipe) -> None:
    plan = plan_recipe(make_recipe(backbone={"name": name, "weights": "random", "size": 32}, budget=0.25))
    note = "a kernel holds 1 to 256 weights, so the shares of kernels and of weights differ"
    differ = abs(plan.kernels / plan.dense_kernels - plan.weights / plan.dense_weights) > 0.01
    assert differ == (name == "timm/test_vit") == (note in plan.notes)


def test_a_plan_for_a_file_larger_than_the_dense_network_says_so(make_recipe: MakeRecipe) -> None:
    whole, half = (plan_recipe(make_recipe(budget=share)) for share in (1.0, 0.5))
    assert whole.model_bytes is not None
    assert whole.model_bytes > whole.dense_bytes
    assert "the file is larger than the dense network" in whole.notes[0]
    assert whole.notes[0].endswith('; set a smaller budget, or set dtype = "float16"')
    assert not any("larger than" in note for note in half.notes)


def test_what_cannot_be_kept_is_refused_with_the_same_words_as_in_training(
    make_recipe: MakeRecipe, tmp_path: Path
) -> None:
    recipe = make_recipe(budget={"bytes": "5 kB"})
    with pytest.raises(RecipeError, match=r"^the budget of 5 kB cannot be kept: .* to at least \d+$") as planned:
        plan_recipe(recipe)
    with pytest.raises(RecipeError) as trained:
        start_run(recipe, tmp_path / "run", device="cpu")
    assert str(trained.value) == str(planned.value)


def test_other_methods_refuse_other_units(make_recipe: MakeRecipe) -> None:
    with pytest.raises(RecipeError, match=r"method 'union' limits a share of the kernels only.*budget\.bytes"):
        plan_recipe(make_recipe(method="union", budget={"bytes": "1 MB"}))


def test_statistics_of_images_that_are_not_decoded_take_as_much_room(make_recipe: MakeRecipe) -> None:
    recipe = make_recipe(budget=0.25)
    own = [choice.model_dump() | {"statistics": "own"} for choice in recipe.domains]
    of_backbone, of_images = plan_recipe(recipe), plan_recipe(make_recipe(budget=0.25, domains=own))
    assert of_backbone.bytes_by_part[REST] < of_images.bytes_by_part[REST] < of_backbone.bytes_by_part[REST] + 300


@pytest.mark.slow
def test_the_file_of_a_run_is_as_large_as_planned_and_keeps_every_limit(
    make_recipe: MakeRecipe, tmp_path: Path
) -> None:
    recipe = make_recipe(budget={"bytes": "400 kB", "macs": "20 M"}, dtype="float16")
    plan = prunus.plan(recipe)
    run = prunus.train(recipe, tmp_path / "run", device="cpu")
    file = prunus.prune(run, tmp_path / "model.prunus")
    assert plan.model_bytes is not None
    limits = limits_of_file(file)
    assert {limit.name for limit in limits} == {"bytes", "macs"}
    assert all(limit.kept for limit in limits)
    assert abs(file.stat().st_size - plan.model_bytes) < 0.05 * plan.model_bytes
    results = prunus.evaluate(run, device="cpu")
    assert results.model_bytes == file.stat().st_size  # at the recipe's type
    assert results.budget_kept
    assert results.limits == limits
    assert prunus.evaluate(file, data=tmp_path).limits == limits
