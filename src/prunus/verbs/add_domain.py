"""Add a domain to a finished model."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prunus.adding.recipe import Addition, addition_recipe, check_name
from prunus.adding.result import with_learned
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import read_bundle, write_bundle
from prunus.config import MODEL_SUFFIX, PYTHON_PREFIX
from prunus.data.own.domain import OwnDomain, PairDataset
from prunus.editing.domains import check_floats
from prunus.errors import BundleError, PrunusError, RecipeError, TrainingInterrupted
from prunus.evaluation.packing import pack_run
from prunus.evaluation.subject import recipe_of_file
from prunus.extending.continuing import RUN, TEACHER, check_folder
from prunus.extending.learning import Learning, find_original
from prunus.files import as_path
from prunus.recipes import TRAINED_FIRST
from prunus.training.observers import Observer
from prunus.training.run import open_run
from prunus.verbs.arguments import Domains, Own, Transform

if TYPE_CHECKING:
    from torch import nn

BASE = "base.prunus"  # the model that a domain is added to, if it is a run or its file has another ending


def add_domain(  # noqa: PLR0913  # all but three have defaults
    model: str | Path,
    images: str | Path | OwnDomain | PairDataset,
    out: str | Path,
    *,
    name: str | None = None,
    grow: str | float | None = None,
    replace: bool = False,
    teacher: str | Path | None = TRAINED_FIRST,
    weights: str | Path | None = None,
    settings: Sequence[str] = (),
    run: str | Path | None = None,
    observers: Sequence[Observer] | None = None,
    device: str = "auto",
    use_cache: bool = True,
    progress: bool | None = None,
    backbone: nn.Module | None = None,
    transform: Transform | None = None,
) -> Path:
    """Learn one more domain inside a finished model and write a larger model file.

    The domain learns masks, norms and a classifier. No stored weight changes, and every other domain answers exactly
    as before.

    Args:
        model: a model file, or the folder of a finished run.
        images: folder or zip file of the new domain's images, or a dataset.
        name: of the domain (default: that of the folder); a dataset needs one.
        grow: share of the original network's kernels that may be added for the new domain, such as "5%".
        replace: train a domain that the model already has again.
        teacher: "finetune" fine-tunes the original network first, and the domain learns its answers too; the folder of
            such a run uses that one; None trains without.
        weights: file of the original network's weights, or "random" (default: the bundled ones).
        settings: changes of the recipe, such as "training.epochs=10".
        run: folder in which the domain is trained (default: OUT.run, which is removed at the end); if training was
            interrupted, the same call continues there.
        observers: told about every step and epoch.
        device: "auto", "cpu" or "cuda".
        use_cache: keep decoded images in the user's cache folder.
        progress: as in `train`.
        backbone: the original network, if it was passed to `train`.
        transform: augments one training image, as in `train`; the teacher's images too.
    """
    file = as_path(out, "the model file to write")
    if file.is_dir():
        raise BundleError(f"{out} is a folder; name the file to write, such as {file / 'model.prunus'}")
    own = Own(backbone, _own_domains(images, name), transform)
    addition = Addition(
        f"{PYTHON_PREFIX}{name}" if own.domains else str(images), name, grow, None if weights is None else str(weights)
    )
    with _folder(run, file) as folder:
        base, bundle = _opened(as_path(model, "a model file or the folder of a run"), folder, own)
        check_floats(bundle)
        recipe_of_file(bundle, base)  # the larger file is compared with its budget: better refused before training
        recipe = own.in_recipe(addition_recipe(base, bundle, addition, settings))
        check_name(bundle, recipe.domains[0].name, replace)
        with own.passed(bundle.manifest.backbone):
            needed = teacher == TRAINED_FIRST or recipe.backbone.original
            original = find_original(bundle, addition.weights, not recipe.backbone.original) if needed else None
            learning = Learning(folder, observers, progress, device, use_cache)
            trained = learning.learn(recipe, teacher, original)
        write_bundle(file, with_learned(bundle, trained.net, trained.checkpoint), bundle.dtype)
    return file


def _own_domains(images: object, name: str | None) -> Domains | None:
    if isinstance(images, (str, os.PathLike)):
        return None
    if name is None:
        raise RecipeError("a dataset needs the name of its domain, as in prunus.add_domain(..., name='cars')")
    return {name: images}  # type: ignore[dict-item]  # what is no dataset is refused where it is opened


@contextmanager
def _folder(run: str | Path | None, file: Path) -> Iterator[Path]:
    """Return the folder to train in; one that nobody named is removed afterwards, unless training was interrupted."""
    folder = file.with_name(f"{file.name}.run") if run is None else as_path(run, "the folder of a run")
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    except TrainingInterrupted:
        raise TrainingInterrupted(f"what was learned is kept in {folder}; the same command continues there") from None
    except PrunusError:
        if run is None and not any(folder.iterdir()):
            folder.rmdir()
        raise
    if run is None:
        for made in (folder / RUN, folder / TEACHER):
            shutil.rmtree(made, ignore_errors=True)
        (folder / BASE).unlink(missing_ok=True)
        if not any(folder.iterdir()):  # whatever else is there belongs to the user
            folder.rmdir()


def _opened(model: Path, folder: Path, own: Own) -> tuple[Path, Bundle]:
    """Return a model file, whose name ends in .prunus, and its content; that of a run is written first."""
    base = folder / BASE
    if not model.is_dir():
        bundle = read_bundle(model)
        if model.suffix == MODEL_SUFFIX:
            return model.absolute(), bundle
        shutil.copyfile(model, base)
        return base.absolute(), bundle
    with own.passed_to(model):
        trained = open_run(model, "cpu")
    dtype = trained.recipe.dtype
    write_bundle(base, pack_run(trained), "float32" if dtype == "int8" else dtype)  # a domain is added to floats
    return base.absolute(), read_bundle(base)
