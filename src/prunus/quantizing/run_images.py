"""Find the training images of a run and draw from them."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from prunus.bundle.manifest import DomainEntry
from prunus.config import NO_FOLDERS, DomainChoice, Recipe
from prunus.data.domains import Domain
from prunus.data.folders.structure import split_of
from prunus.data.layouts import open_domain
from prunus.errors import DataError, PrunusError
from prunus.evaluation.classifying import holds_no_domain, locate
from prunus.quantizing.images import Draw, Drawn, Loading, draw_images, limited

WAYS = (
    "name the folder that holds the domains with the argument data='DIR', or write a file of floats with the argument "
    "dtype='float16'"
)


def draw_run_images(
    recipe: Recipe, entries: Mapping[str, DomainEntry], data: str | Path | None, draw: Draw, loading: Loading
) -> dict[str, Drawn]:
    """Draw images of every domain of a model.

    Args:
        entries: the domains as the model file has them, with their classes.
        data: the folder of the domains, if it is not where the recipe says.
    """
    side = max(entry.preprocess.size for entry in entries.values())
    fewer = limited(draw, side, len(entries))
    choices = {choice.name: choice for choice in recipe.domains}
    drawn = {}
    for name, entry in entries.items():
        choice = choices.get(name) or DomainChoice(name=name, path=name)
        domain = _opened(choice, entry, recipe, data)
        drawn[name] = draw_images(domain, entry.preprocess, fewer, recipe.skip_bad_images, loading)
    return drawn


def _opened(choice: DomainChoice, entry: DomainEntry, recipe: Recipe, data: str | Path | None) -> Domain:
    located = None
    try:
        located = locate(choice, data)
        domain = open_domain(located, recipe.training.validation_share)
    except PrunusError as error:
        problem = str(error)
        with suppress(OSError):  # a folder that cannot be read is named by the error
            problem = _problem(choice.name, data, located) or problem
        raise DataError(
            f"8-bit numbers are chosen with the training images of every domain, but {problem}; {WAYS}"
        ) from None
    if domain.classes != entry.classes:
        raise DataError(
            f"the classes of domain {choice.name!r} in {domain.source.path} are not those the model was trained on"
        )
    if recipe.training.splits != "train":  # validation images were trained on too
        return replace(domain, train=(*domain.train, *domain.validation), validation=())
    return domain


def _problem(name: str, data: str | Path | None, located: DomainChoice | None) -> str | None:
    """Say in a few words why the images of a domain were not found; None if an error says it better."""
    if data is not None and not Path(data).is_dir():
        return f"there is no folder {data}"
    if located is None:
        if data is not None:
            return holds_no_domain(data, name)
        return f"the model file does not record where those of {name!r} are"
    if located.path.startswith(NO_FOLDERS):
        return None
    folder = Path(located.path)
    splits = [entry for entry in folder.iterdir() if entry.is_dir()] if folder.is_dir() else []
    empty = [entry for entry in splits if split_of(entry.name) == "train" and not any(entry.iterdir())]
    return f"the folder {empty[0]} is empty" if empty else None
