"""A comparison is planned and checked before anything is trained."""

from collections.abc import Callable
from pathlib import Path

import pytest

from prunus.comparison.plan import Choices, changed_options, check_data, plan_comparison, plan_trials
from prunus.config import Budget, Recipe, Sharing
from prunus.errors import DataError, PrunusError, RecipeError, UnknownNameError
from prunus.methods.table import METHODS
from prunus.recipes import parse_recipe


@pytest.fixture
def recipe() -> Recipe:
    return parse_recipe({"backbone": "wrn14_2", "domains": ["one", "two"], "method": "piggyback", "seed": 3})


@pytest.mark.parametrize(
    ("methods", "budgets", "message"),
    [
        (("onion",), (0.5,), "unknown method 'onion'; did you mean 'union'?"),
        (("taps:sparsety=1",), (0.5,), "unknown taps option 'sparsety'; did you mean 'sparsity'?"),
        (("taps:sparsity=-1",), (0.5,), "recipe key 'method.sparsity'"),
        (("taps:sparsity",), (0.5,), "an option is written method:key=value"),
        (("bn:sharing=union",), (0.5,), "method 'bn' has no switches to share"),
        (("ba2:sharing=unoin",), (0.5,), "unknown sharing loss 'unoin'"),
        (("ba2:sharing=jaccard",), (0.5,), 'use method = "jaccard"'),
        (("ba2:sharing=soft_overlap:weight=learned",), (0.5,), "cannot be learned"),
        (("hard_sharing:layers=middle",), (0.5,), "'early', 'late' or 'random'"),
        (("union",), (1.5,), "recipe key 'budget"),
        ((), (0.5,), "at least one method"),
        (("",), (0.5,), "at least one method"),
        (("taps:name=bn",), (0.5,), "an option is written method:key=value"),
        (("ba2:budget=0.5",), (0.5,), "budgets go into the argument budgets"),
        (("taps:sparsity=1:sparsity=2",), (0.5,), "once each"),
        (("piggyback:sharing=union",), (0.5,), "method 'piggyback' has no budget"),
        (("ba2:weight=5.0",), (0.5,), "has no sharing loss; remove sharing.weight"),
        (("ba2_individual:sharing=soft_overlap",), (0.5,), "needs domains to learn together"),
        (("early_exits:exits=9",), (0.5,), "too few for 9 exits"),
        (("union",), (), "at least one method and one budget"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_trained(
    recipe: Recipe, methods: tuple[str, ...], budgets: tuple[float, ...], message: str
) -> None:
    with pytest.raises(PrunusError) as caught:
        plan_comparison(recipe, methods, budgets)
    assert message in str(caught.value)


def test_a_method_is_compared_once_and_with_every_budget_it_takes(recipe: Recipe) -> None:
    entries = plan_comparison(recipe, ("union", "all", "bn", "union"), (0.5, 0.5, 0.25))
    names = [entry.name for entry in entries]
    assert len(names) == len(set(names)) == len(METHODS) + sum(method.has_budget for method in METHODS.values())
    assert [name for name in names if name.startswith("union")] == ["union-0.5", "union-0.25"]


def test_a_sweep_takes_a_table_of_limits_from_the_recipe_for_the_method_that_keeps_it(recipe: Recipe) -> None:
    limited = recipe.model_copy(update={"budget": Budget(bytes=1_000_000)})
    entries = plan_trials(limited, Choices(methods=("exact", "bn")))
    assert [entry.name for entry in entries] == ["exact-bytes=1000000", "bn"]
    assert entries[0].recipe.budget == limited.budget
    assert entries[1].recipe.budget == Recipe.model_fields["budget"].default
    with pytest.raises(RecipeError, match=r"method 'union' limits a share of the kernels only.*budget\.bytes"):
        plan_trials(limited, Choices(methods=("exact", "union")))
    assert [entry.name for entry in plan_trials(limited, Choices(("union",), (0.5,)))] == ["union-0.5"]


def test_the_same_method_written_in_several_ways_is_one_row(recipe: Recipe) -> None:
    names = [entry.name for entry in plan_comparison(recipe, ("taps, taps:sparsity=1.0", "taps:sparsity=2"), (0.5,))]
    assert names == ["feature", "finetune", "taps", "taps-sparsity=2.0"]


def test_baselines_come_first_and_only_the_method_and_budget_differ(recipe: Recipe) -> None:
    entries = plan_comparison(recipe, ("union", "bn"), (0.5, 0.25))
    assert [entry.name for entry in entries] == ["feature", "bn", "finetune", "union-0.5", "union-0.25"]
    assert [entry.recipe.budget.kernels for entry in entries[3:]] == [0.5, 0.25]
    assert {entry.recipe.seed for entry in entries} == {3}
    assert {entry.recipe.domains for entry in entries} == {recipe.domains}


def test_the_weight_of_a_sharing_loss_is_kept_for_the_methods_that_have_one(recipe: Recipe) -> None:
    weighed = recipe.model_copy(update={"sharing": Sharing(weight=5.0), "method": None})
    weights = {entry.name: entry.recipe.sharing.weight for entry in plan_comparison(weighed, ("union", "ba2"), (0.5,))}
    assert weights == {"feature": None, "finetune": None, "ba2-0.5": None, "union-weight=5.0-0.5": 5.0}


def test_a_penalty_in_the_recipe_is_refused(recipe: Recipe) -> None:
    soft = recipe.model_copy(update={"sharing": Sharing(loss="soft_overlap"), "method": None})
    with pytest.raises(RecipeError, match="as in ba2:sharing=soft_overlap"):
        plan_comparison(soft, ("bn",), (0.5,))


def test_changed_options_are_those_that_differ_from_the_methods_defaults() -> None:
    def changed(**content: object) -> dict[str, object]:
        return dict(changed_options(parse_recipe({"backbone": "wrn14_2", "domains": ["one"], **content})))

    assert changed(method="union") == {}
    assert changed(method={"name": "taps", "sparsity": 0.5}) == {"sparsity": 0.5}
    assert changed(method="union", sharing={"weight": 2.0}) == {"weight": 2.0}
    assert changed(method="ba2", sharing={"loss": "soft_overlap"}) == {"sharing": "soft_overlap"}


def test_every_seed_is_an_entry_of_the_same_row_and_the_recipes_own_keeps_its_folder(recipe: Recipe) -> None:
    entries = plan_comparison(recipe, ("union",), (0.5,), (0, 3))
    assert [(entry.name, entry.group, entry.recipe.seed) for entry in entries] == [
        ("feature-seed0", "feature", 0),
        ("feature", "feature", 3),
        ("finetune-seed0", "finetune", 0),
        ("finetune", "finetune", 3),
        ("union-0.5-seed0", "union-0.5", 0),
        ("union-0.5", "union-0.5", 3),
    ]
    (without,) = [entry for entry in plan_comparison(recipe, ("union",), (0.5,)) if entry.name == "union-0.5"]
    assert without == entries[-1]


def test_a_seed_out_of_range_is_refused(recipe: Recipe) -> None:
    with pytest.raises(RecipeError, match="recipe key 'seed'"):
        plan_comparison(recipe, ("union",), (0.5,), (-1,))


def test_a_sweep_is_the_product_of_methods_budgets_grid_and_seeds(recipe: Recipe) -> None:
    choices = Choices(("union", "bn"), (0.5, 0.25), (0, 1), ("training.lr=0.01,0.05",))
    entries = plan_trials(recipe, choices)
    groups = list(dict.fromkeys(entry.group for entry in entries))
    assert groups == [
        *("bn-training.lr=0.01", "bn-training.lr=0.05"),
        *("union-training.lr=0.01-0.5", "union-training.lr=0.05-0.5"),
        *("union-training.lr=0.01-0.25", "union-training.lr=0.05-0.25"),
    ]
    assert len(entries) == 2 * len(groups)
    last = entries[-1]
    assert (last.recipe.training.lr, last.recipe.budget.kernels, last.recipe.seed) == (0.05, 0.25, 1)
    assert last.options == {"training.lr": 0.05}


def test_a_sweep_without_choices_is_the_recipe_itself() -> None:
    content = {"backbone": "wrn14_2", "domains": ["one"], "method": {"name": "ba2"}, "budget": 0.4}
    soft = parse_recipe(content | {"sharing": {"loss": "soft_overlap", "weight": 5.0}})
    (entry,) = plan_trials(soft, Choices())
    assert entry.name == "ba2-sharing=soft_overlap-weight=5.0-0.4"
    assert entry.recipe.sharing == soft.sharing
    assert entry.recipe.budget.kernels == 0.4


def test_unknown_keys_of_a_grid_are_refused(recipe: Recipe) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown recipe key 'training\.lrr'; did you mean 'training\.lr'"):
        plan_trials(recipe, Choices(grid=("training.lrr=1",)))


def test_data_without_any_labelled_image_of_the_split_is_refused(make_domain: Callable[..., Path]) -> None:
    one, two, three = (str(make_domain(name, train=4, test=test)) for name, test in (("one", 2), ("two", 0), ("3", 0)))
    check_data(parse_recipe({"backbone": "wrn14_2", "domains": [two, three]}), "train")
    check_data(parse_recipe({"backbone": "wrn14_2", "domains": [two, one]}), "test")  # one of them can be measured
    missing = "the test images of 'two', '3' are missing or have no labels; use the argument split='validation'"
    with pytest.raises(DataError, match=missing):
        check_data(parse_recipe({"backbone": "wrn14_2", "domains": [two, three]}), "test")
    with pytest.raises(UnknownNameError, match="unknown split 'tset'"):
        check_data(parse_recipe({"backbone": "wrn14_2", "domains": [one]}), "tset")


def test_weights_learn_at_the_rate_of_their_method_unless_the_recipe_has_one() -> None:
    content = {"preset": "paper", "backbone": "wrn14_2", "domains": ["one", "two"], "seed": 3}
    methods = ["finetune", "parallel_adapters", "union"]
    rates = {
        entry.group: entry.recipe.training.weight_lr for entry in plan_comparison(parse_recipe(content), methods, [0.5])
    }
    assert rates == {"feature": None, "finetune": 0.01, "parallel_adapters": 0.1, "union-0.5": None}
    given = parse_recipe(content | {"training": {"weight_lr": 0.02}})
    assert {entry.recipe.training.weight_lr for entry in plan_comparison(given, methods, [0.5])} == {0.02}


def test_images_are_held_out_for_the_method_that_chooses_by_them() -> None:
    content = {"preset": "paper", "backbone": "wrn14_2", "domains": ["one"], "training": {"splits": "train+validation"}}
    planned = plan_comparison(parse_recipe(content), ["early_exits", "bn"], [0.5])
    splits = {entry.group: entry.recipe.training.splits for entry in planned}
    assert splits["early_exits"] == "train"
    assert splits["bn"] == splits["finetune"] == "train+validation"


def test_the_ablation_of_the_sharing_loss_reaches_the_methods_that_have_one() -> None:
    content = {"backbone": "wrn14_2", "domains": ["one", "two"], "sharing": {"loss": "union", "freeze_others": True}}
    planned = plan_comparison(parse_recipe(content), ["ba2", "union"], [0.5])
    assert {entry.group: entry.recipe.sharing.freeze_others for entry in planned if "0.5" in entry.group} == {
        "ba2-0.5": False,
        "union-0.5": True,
    }
