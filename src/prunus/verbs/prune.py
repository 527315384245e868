"""Write a run as one small model file, or a model file of floats as one of another type."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prunus.arrays import DType
from prunus.bundle.bundle import Bundle
from prunus.bundle.dtypes import STORED
from prunus.bundle.file import read_bundle, write_bundle
from prunus.config import Recipe
from prunus.errors import AccuracyWarning, BudgetWarning, BundleError, DataError, check_known
from prunus.evaluation.limits import limits_used
from prunus.evaluation.packing import pack_run
from prunus.evaluation.subject import recipe_of_domains, recipe_of_file
from prunus.evaluation.watching import watched_by, watching
from prunus.files import as_path
from prunus.measure.budget import LimitUse
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.eight_bits.held_out import what_breaks
from prunus.measure.eight_bits.summary import eight_bits_of
from prunus.methods.table import choose_method
from prunus.names import shown
from prunus.quantizing.images import Draw
from prunus.quantizing.quantize import Settings, quantize
from prunus.quantizing.run_images import draw_run_images
from prunus.timing.machine import usable_processors
from prunus.training.reporting.findings import larger_than_dense, limit_of, over_budget, over_limits
from prunus.training.run import open_run
from prunus.verbs.arguments import Domains, Own, check_run_or_file

if TYPE_CHECKING:
    from torch import nn

__all__ = ["find_problems", "limits_of_file", "prune", "watched_by"]


def prune(
    run: str | Path,
    out: str | Path,
    dtype: DType | None = None,
    data: str | Path | None = None,
    *,
    backbone: nn.Module | None = None,
    domains: Domains | None = None,
) -> Path:
    """Drop every kernel that no domain of a run uses and write the rest to one file.

    A model file of floats is written again with another dtype, with all its domains, those that were added too. A
    file that exceeds its budget, or the size of the dense network, is written with a warning. So is an 8-bit file that
    loses more accuracy than it may.

    Args:
        run: the folder of a run, or a model file of floats.
        dtype: how weights are stored: float32, float16, bfloat16 or int8 (default: of a run the recipe's, of a model
            file its own). With int8 the file also computes with 8-bit integers, whose scales are chosen with training
            images.
        data: for int8, the folder of the domains, if it is not where the recipe says; a model file records this
            of bundled domains (`demo:`) only.
        backbone: your own network, with which the run was trained.
        domains: for int8, the images of domains that were passed from Python in training.
    """
    file = as_path(out, "the model file to write")
    source = as_path(run, "the folder of a run")
    if file.is_dir():
        raise BundleError(f"{out} is a folder; name the file to write, such as {file / 'model.prunus'}")
    check_run_or_file(source)
    if source.is_file() and file.exists() and file.samefile(source):
        raise BundleError(f"{out} is the file to read; name another one to write")
    if dtype is not None:
        check_known("dtype", dtype, STORED)
    with Own(backbone, domains).passed_to(source):
        bundle, recipe = _packed(source) if source.is_dir() else (_read(source, dtype), None)
        chosen = dtype or (recipe.dtype if recipe else bundle.dtype)
        if data is not None and chosen != "int8":
            raise DataError(
                f"images are needed for int8 only, and this file gets {chosen}; leave out the argument data, or use "
                "the argument dtype='int8'"
            )
        if chosen == "int8":
            recipe = recipe or recipe_of_domains(bundle, source, "cannot be written as int8")
            bundle = _in_eight_bits(recipe, bundle, data)
    write_bundle(file, bundle, chosen)
    eight_bits = eight_bits_of(bundle)
    if eight_bits and eight_bits.within is False:
        warnings.warn(shown(f"{out}: {what_breaks(eight_bits.held_out)}"), AccuracyWarning, stacklevel=2)
    for problem in find_problems(file, source):
        warnings.warn(shown(f"{out}: {problem}"), BudgetWarning, stacklevel=2)
    return file


def _packed(run: Path) -> tuple[Bundle, Recipe]:
    trained = open_run(run, device="cpu")
    return pack_run(trained), trained.recipe


def _read(file: Path, dtype: DType | None) -> Bundle:
    """Read a model file of floats; another one must be written from its run, as the dtype that was asked for."""
    bundle = read_bundle(file)
    if bundle.dtype == "int8":
        raise BundleError(
            f"{file} is an 8-bit model file, and only files of floats are written again; write one from its run with: "
            f"prunus.prune('RUN', 'model.prunus', dtype={dtype or bundle.dtype!r}), or remove a domain of this one "
            "with: prunus.remove_domain('FILE', 'NAME', 'smaller.prunus')"
        )
    return bundle


def _in_eight_bits(recipe: Recipe, bundle: Bundle, data: str | Path | None) -> Bundle:
    watch = watching()
    draw = Draw(seed=recipe.seed)
    images = draw_run_images(recipe, bundle.manifest.domains, data, draw, partial(watch, "decoding"))
    settings = Settings(threads=usable_processors(), most_bytes=recipe.budget.bytes)
    return quantize(bundle, images, settings, watch)


def limits_of_file(model: Path) -> tuple[LimitUse, ...]:
    """Return what a model file takes of every limit of its recipe; none where it has no budget."""
    bundle = read_bundle(model)
    recipe = recipe_of_file(bundle, model)
    return (limits_used(recipe, bundle_costs(bundle), model.stat().st_size) if recipe else None) or ()


def find_problems(model: Path, run: Path | str = "RUN") -> list[str]:
    """Say what is wrong with the model file that was just written from a run or a file: its usage, or its size."""
    bundle = read_bundle(model)
    recipe = recipe_of_file(bundle, model)
    problems = larger_than_dense(model.stat().st_size, bundle.manifest.dense_bytes, _smaller(recipe))
    if recipe is None:
        return problems
    if choose_method(recipe).method.keeps_budget:
        of_run = "RUN" if Path(run).is_file() else run
        return [*over_limits(limits_of_file(model), _remedy(bundle, recipe, of_run)), *problems]
    return [*over_budget(limit_of(recipe), bundle_costs(bundle)), *problems]


def _smaller(recipe: Recipe | None) -> list[str]:
    """Return what makes a file smaller."""
    method = choose_method(recipe).method if recipe else None
    return [
        *(["set a smaller budget"] if method and method.has_budget else []),
        *(["train for more epochs"] if method and method.has_budget and not method.keeps_budget else []),
        "use the argument dtype='float16'",
    ]


def _remedy(bundle: Bundle, recipe: Recipe, run: Path | str) -> str:
    """Return what to do about a file that exceeds a budget that its method keeps."""
    if bundle.dtype != recipe.dtype:
        return f"the recipe plans for the argument dtype={recipe.dtype!r}, and this file is {bundle.dtype}"
    step, total = (bundle.manifest.provenance.get(key, 0) for key in ("step", "total_steps"))
    if step < total:
        return f"the run stopped at step {step} of {total}; continue it with: prunus.resume({str(run)!r})"
    return "train the run again, with a slightly smaller budget"
