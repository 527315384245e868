"""Look at folders of images and write a recipe for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prunus.data.sources import open_source
from prunus.drafting.draft import BACKBONES, choose, next_commands, write_draft
from prunus.drafting.survey import FoundDomain, look_at
from prunus.errors import MissingExtraError, RecipeError
from prunus.files import write_atomically
from prunus.recipes import parse_recipe, parse_toml
from prunus.samples import bundled


@dataclass(frozen=True)
class WrittenRecipe:
    """A recipe that was written, what it was made from, and the commands to type next.

    Args:
        left_out: a reason for each folder that is not in the recipe.
        missing: what to install before training, if the backbone needs it.
        splits: the images to train on: "train" or "train+validation".
    """

    path: Path
    backbone: str
    why: str
    domains: tuple[FoundDomain, ...]
    left_out: tuple[str, ...]
    next_commands: tuple[str, ...]
    missing: str | None = None
    splits: str = "train"


def make_recipe(
    data: str | Path | Sequence[str | Path],
    out: str | Path = "recipe.toml",
    force: bool = False,
    backbone: str | None = None,
) -> WrittenRecipe:
    """Look at folders of images, choose settings that fit them, and write a commented recipe.

    Args:
        data: a domain (a folder or zip file), a folder of domains, or several of these.
        out: the recipe to write.
        force: overwrite an existing file.
        backbone: the network to use (default: chosen by the size of the images).
    """
    path = Path(out)
    sources = [data] if isinstance(data, str | Path) else data
    for source in sources:
        open_source(source)  # a wrong path is the first thing to say
    if path.is_dir():
        raise RecipeError(f"{out} is a folder; name the file to write, such as {path / 'recipe.toml'}")
    if path.exists() and not force:
        raise RecipeError(f"{out} exists already; choose another name, or overwrite it with the argument force")
    survey = look_at(sources)
    choices = choose(survey, backbone)
    text = write_draft(survey, choices, path)
    parse_recipe(parse_toml(text), path.parent)  # what init writes must be accepted by train
    write_atomically(path, text.encode())
    commands = tuple(next_commands(survey, path))
    return WrittenRecipe(
        path,
        choices.backbone,
        choices.why,
        survey.domains,
        survey.left_out,
        commands,
        _missing(choices.backbone),
        choices.splits,
    )


def _missing(backbone: str) -> str | None:
    """Say what to install for a bundled backbone."""
    try:
        if backbone in BACKBONES:
            bundled("backbones")
    except MissingExtraError as error:
        return str(error)
    return None
