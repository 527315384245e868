"""What is chosen for a recipe that leaves it open, against counted steps."""

import pytest

from prunus.config import Recipe
from prunus.data.schedule import schedule
from prunus.errors import RecipeError
from prunus.recipes import parse_recipe
from prunus.training.settling import choose_epochs, settled, settled_like

DEMO = (800, 800, 800, 750, 800)


def _recipe(domains: int = 5, **training: object) -> Recipe:
    names = [f"d{index}" for index in range(domains)]
    return parse_recipe({"backbone": "wrn14_2", "domains": names, "training": training})


def _steps(recipe: Recipe, sizes: tuple[int, ...]) -> list[int]:
    """Count the steps in which every domain learns, by going through all of them."""
    training = recipe.training
    steps = list(schedule(training.strategy, sizes, training.batch_size, training.num_epochs, seed=0))
    return [sum(domain in dict(step.parts) for step in steps) for domain in range(len(sizes))]


def test_the_demo_has_the_settings_that_were_measured_with_it() -> None:
    training = settled(_recipe(), DEMO).training
    assert training.epochs == 15
    assert training.switch_lr == pytest.approx(2e-4, rel=0.1)


@pytest.mark.parametrize("sizes", [(70, 70), (60, 200, 40), (500, 500), DEMO, (8000, 4000), (15_000, 20_000)])
def test_small_and_large_sets_have_enough_steps_but_not_many_more(sizes: tuple[int, ...]) -> None:
    steps = _steps(settled(_recipe(len(sizes)), sizes), sizes)
    assert 1600 <= sum(steps) <= 6000
    assert min(steps) > 0


def test_more_images_never_mean_more_epochs() -> None:
    epochs = [choose_epochs(images) for images in range(1, 100_000, 37)]
    assert epochs == sorted(epochs, reverse=True)
    assert (epochs[0], epochs[-1]) == (300, 5)
    assert choose_epochs(16_000) == 8  # four times the images, half the epochs


@pytest.mark.parametrize("strategy", ["shuffled", "alternate", "mixed", "individual"])
def test_switches_travel_equally_far_whatever_the_strategy_and_length(strategy: str) -> None:
    for epochs in (20, 40):
        recipe = settled(_recipe(2, strategy=strategy, epochs=epochs), (640, 640))
        (steps, other) = _steps(recipe, (640, 640))
        assert steps == other
        assert steps * recipe.training.switch_rate == pytest.approx(0.08, rel=0.05)


def test_the_rate_of_switches_has_bounds() -> None:
    rates = [settled(_recipe(1, epochs=epochs), (3200,)).training.switch_lr for epochs in (1, 100)]
    assert rates == [3e-4, 5e-5]


def test_what_the_recipe_sets_stays() -> None:
    recipe = _recipe(2, epochs=7, switch_lr=0.5)
    assert settled(recipe, (10, 10)) == recipe
    assert settled(_recipe(2, epochs=7), (10, 10)).training.epochs == 7


def test_a_settled_recipe_stays_settled_with_other_images() -> None:
    recipe = settled(_recipe(2), (100, 100))
    assert settled(recipe, (9000, 9000)) == recipe


def test_the_recipe_of_a_run_gets_the_numbers_of_that_run() -> None:
    trained = settled(_recipe(), DEMO)
    assert settled_like(_recipe(), trained) == trained
    assert settled_like(_recipe(epochs=20), trained).training.epochs == 20
    assert settled_like(_recipe(epochs=20), trained).training.switch_lr == trained.training.switch_lr


def test_a_warm_up_as_long_as_the_chosen_length_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"warmup_epochs = 15 must be less .* is 15 for 3950 training images"):
        settled(_recipe(warmup_epochs=15.0), DEMO)


def test_a_recipe_that_no_run_has_settled_says_so() -> None:
    training = _recipe().training
    with pytest.raises(RecipeError, match=r"training\.epochs is chosen when a run starts"):
        _ = training.num_epochs
    with pytest.raises(RecipeError, match=r"training\.switch_lr is chosen when a run starts"):
        _ = training.switch_rate
