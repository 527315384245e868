"""Choose the length and the switch rate of a run that its recipe leaves open.

The defaults were measured on the demo: 15 epochs of about 4,000 images. A smaller set is repeated until the run has
seen as many images. A larger one needs fewer repetitions, but more steps. A domain that is added to a model file cannot
change the kernels, so it is trained for longer.
"""

import math
from collections.abc import Sequence

from prunus.config import MethodChoice, Recipe, Training
from prunus.data.schedule import num_steps
from prunus.errors import RecipeError
from prunus.granularity import AUTO

USUAL_IMAGES = 4000
USUAL_EPOCHS = 15
FEWEST_EPOCHS, MOST_EPOCHS = 5, 300
LONGER_INSIDE, MOST_EPOCHS_INSIDE = 4, 100  # of a domain that is added to a model file
SWITCH_TRAVEL = 0.08  # switch_lr times the steps of one domain: how far its switches can move
LOWEST_SWITCH_LR, HIGHEST_SWITCH_LR = 5e-5, 3e-4


def settled(recipe: Recipe, sizes: Sequence[int]) -> Recipe:
    """Return a recipe whose `training.epochs` and `training.switch_lr` are numbers.

    Args:
        sizes: the number of training images of every domain.
    """
    training = recipe.training
    epochs = training.epochs or choose_epochs(sum(sizes))
    if training.epochs is None and recipe.backbone.is_model_file:
        epochs = max(epochs, min(LONGER_INSIDE * epochs, MOST_EPOCHS_INSIDE))
    if training.warmup_epochs >= epochs:
        raise RecipeError(
            f"training.warmup_epochs = {training.warmup_epochs:g} must be less than the number of epochs, which is "
            f"{epochs} for {sum(sizes)} training images; set training.epochs or a shorter warm-up"
        )
    switch_lr = training.switch_lr or choose_switch_lr(training, sizes, epochs)
    return _with(recipe, epochs, switch_lr)


def settled_like(recipe: Recipe, trained: Recipe) -> Recipe:
    """Return a recipe with what was chosen for a run of it."""
    training = recipe.training
    ours, theirs = recipe.method, trained.method
    if ours and theirs and ours.options.get("granularity") == AUTO and "granularity" in theirs.options:
        content = {"name": ours.name, **ours.options, "granularity": theirs.options["granularity"]}
        recipe = recipe.model_copy(update={"method": MethodChoice.model_validate(content)})
    return _with(recipe, training.epochs or trained.training.epochs, training.switch_lr or trained.training.switch_lr)


def choose_epochs(images: int) -> int:
    """Return 15 epochs for 4,000 images: for fewer in inverse proportion, for more by the inverse of the root."""
    ratio = USUAL_IMAGES / images
    epochs = round(USUAL_EPOCHS * (ratio if ratio > 1 else math.sqrt(ratio)))
    return min(max(epochs, FEWEST_EPOCHS), MOST_EPOCHS)


def choose_switch_lr(training: Training, sizes: Sequence[int], epochs: int) -> float:
    """Return the rate at which switches travel the same distance in a short and in a long run, within bounds."""
    steps = num_steps(training.strategy, sizes, training.batch_size, epochs)
    of_one_domain = steps if training.strategy == "mixed" else steps / len(sizes)
    rate = min(max(SWITCH_TRAVEL / of_one_domain, LOWEST_SWITCH_LR), HIGHEST_SWITCH_LR)
    return float(f"{rate:.2g}")


def _with(recipe: Recipe, epochs: int | None, switch_lr: float | None) -> Recipe:
    training = recipe.training.model_copy(update={"epochs": epochs, "switch_lr": switch_lr})
    return recipe.model_copy(update={"training": training})
