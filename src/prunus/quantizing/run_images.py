"""Find the training images of a run and draw from them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from prunus.bundle.manifest import DomainEntry
from prunus.config import DomainChoice, Recipe
from prunus.data.domains import Domain
from prunus.data.layouts import open_domain
from prunus.errors import DataError
from prunus.evaluation.classifying import locate
from prunus.quantizing.images import Draw, Drawn, draw_images, limited

Loading = Callable[[str, int, int], None]  # domain, images done, total


def draw_run_images(
    recipe: Recipe, entries: Mapping[str, DomainEntry], data: str | Path | None, draw: Draw, loading: Loading
) -> dict[str, Drawn]:
    """Draw images of every domain of a run.

    Args:
        entries: the domains as the model file has them, with their classes.
        data: the folder of the domains, if it is not where the recipe says.
    """
    side = max(entry.preprocess.size for entry in entries.values())
    fewer = limited(draw, side, len(entries))
    drawn = {}
    for choice in recipe.domains:
        entry = entries[choice.name]
        domain = _opened(choice, entry, recipe, data)
        drawn[choice.name] = draw_images(domain, entry.preprocess, fewer, recipe.skip_bad_images, loading)
    return drawn


def _opened(choice: DomainChoice, entry: DomainEntry, recipe: Recipe, data: str | Path | None) -> Domain:
    try:
        domain = open_domain(locate(choice, data), recipe.training.validation_share)
    except DataError as error:
        raise DataError(
            f"8-bit numbers are chosen with the training images of every domain, and those of {choice.name!r} cannot "
            f"be read: {error}; name the folder that holds the domains with the argument data='DIR', or write a model "
            "file of another dtype, such as dtype='float16'"
        ) from None
    if domain.classes != entry.classes:
        raise DataError(
            f"the classes of domain {choice.name!r} in {domain.source.path} are not those the model was trained on"
        )
    if recipe.training.splits != "train":  # validation images were trained on too
        return replace(domain, train=(*domain.train, *domain.validation), validation=())
    return domain
