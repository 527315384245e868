"""Say what a recipe's model will hold, weigh and compute, before anything is trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prunus.backbone.weights import fingerprint
from prunus.backbone.zoo import Backbone, load_backbone
from prunus.budgets.keeper import Keeper
from prunus.budgets.limits import Usage, cost_usage
from prunus.budgets.meter import FileMeter
from prunus.bundle.file import bundle_parts
from prunus.checkpoints.checkpoint import Identity
from prunus.config import DomainChoice, Recipe
from prunus.data.domains import Domain
from prunus.data.layouts import open_domain
from prunus.data.schedule import num_steps
from prunus.images import Preprocess
from prunus.masks.network import MultiDomainNet
from prunus.measure.budget import LimitUse, Plan, PlannedDomain, Unit
from prunus.measure.cost import CostReport
from prunus.measure.inspection import titled_parts
from prunus.methods.costs import dense_costs, network_costs
from prunus.methods.table import adapt, choose_method, with_granularity, with_method
from prunus.recipes import with_absolute_paths
from prunus.timing.dense import why_not_a_file
from prunus.training.planning import check_recipe
from prunus.training.promise import as_computed, as_if_trained, make_keeper
from prunus.training.reporting.findings import larger_than_dense
from prunus.training.settling import settled
from prunus.training.setup import resized

UNKNOWN = (0.123456, 0.123456, 0.123456)  # as long as the statistics of images can be
CHOSEN_LATER = (
    "training chooses the kernels, so amounts without a limit may change; a domain may use fewer kernels than are kept"
)
PENALTY = (
    "method {name!r} has a penalty instead of a limit, so the size of the file is known only after training; "
    'kernels, weights and MACs are those before pruning; use method = "exact" to keep a budget exactly'
)
SMALLER = ("set a smaller budget", 'set dtype = "float16"')
NO_BUDGET = "method {name!r} has no budget, so no kernel is removed"
NO_FILE = "no model file can hold this network, so its kernels are counted instead: {reason}"
UNEQUAL = "a kernel holds {least} to {most:,} weights, so the shares of kernels and of weights differ"
UNEQUAL_FROM = 0.01  # of all kernels, or of all weights


@dataclass(frozen=True)
class _Measured:
    """What the untrained network takes within its limits.

    Args:
        parts: sizes of the parts of its file.
    """

    usage: Usage
    parts: dict[str, int]
    limits: tuple[LimitUse, ...]
    notes: tuple[str, ...]


def plan_recipe(recipe: Recipe) -> Plan:
    """Shrink the untrained network to the budget, as training will, and measure it; no image is decoded."""
    check_recipe(recipe)
    training = recipe.training
    domains = [open_domain(choice, training.validation_share) for choice in recipe.domains]
    images = [len(domain.split(training.splits)) for domain in domains]
    # as a run and its file have it
    recipe = settled(with_absolute_paths(with_method(recipe), Path.cwd()), images)
    backbone = load_backbone(recipe.backbone)
    recipe = with_granularity(recipe, backbone.network)
    chosen = choose_method(recipe)
    identity = _identity(recipe, backbone, domains)
    net = as_if_trained(adapt(backbone, identity.classes, chosen.name, recipe.seed, chosen.options))
    keeper = make_keeper(net, backbone, identity)
    measured = _shrunk(keeper, recipe, net.dense_bytes()) if keeper else _unpruned(net, backbone, recipe)
    dense = dense_costs(as_computed(net, backbone) if keeper else backbone)
    usage = measured.usage
    return Plan(
        backbone=recipe.backbone.name,
        method=chosen.name,
        dtype=recipe.dtype,
        is_exact=keeper is not None,
        domains={
            domain.name: _planned(domain, count, macs, dense)
            for domain, count, macs in zip(domains, images, usage.macs, strict=True)
        },
        kernels=usage.kernels,
        weights=usage.weights,
        model_bytes=usage.bytes,
        bytes_by_part=measured.parts,
        dense_kernels=dense.num_kernels(),
        dense_weights=dense.dense_weights(),
        dense_bytes=net.dense_bytes(),
        dense_macs=dense.dense_macs(),
        limits=measured.limits,
        binding=_binding(measured, dense),
        epochs=recipe.training.num_epochs,
        steps=_steps(recipe, images),
        notes=(*backbone.notes, *_unequal(usage, dense), *measured.notes),
        source=recipe.source,
    )


def _unequal(usage: Usage, dense: CostReport) -> tuple[str, ...]:
    """Return why the shares of kernels and weights differ, if a reader of the plan can see that they do."""
    if abs(usage.kernels / dense.num_kernels() - usage.weights / dense.dense_weights()) < UNEQUAL_FROM:
        return ()
    areas = [layer.kernel_area for layer in dense.layers]
    return (UNEQUAL.format(least=min(areas), most=max(areas)),)


def _binding(measured: _Measured, dense: CostReport) -> Unit | None:
    """Return the limit that is used most, if any kernel had to go for it."""
    if not measured.limits or (measured.usage.kernels == dense.num_kernels() and _all_used(measured.usage, dense)):
        return None
    return max(measured.limits, key=lambda limit: limit.share).name


def _all_used(usage: Usage, dense: CostReport) -> bool:
    return all(macs == dense.dense_macs() for macs in usage.macs)


def _planned(domain: Domain, images: int, macs: int, dense: CostReport) -> PlannedDomain:
    return PlannedDomain(classes=len(domain.classes), images=images, macs=macs, macs_ratio=macs / dense.dense_macs())


def _identity(recipe: Recipe, backbone: Backbone, domains: Sequence[Domain]) -> Identity:
    """Return what identifies the run, except for the checksums of images, which are not decoded."""
    return Identity(
        recipe=recipe,
        backbone=fingerprint(backbone.network),
        domains={domain.name: "" for domain in domains},
        classes={domain.name: domain.classes for domain in domains},
        preprocess={choice.name: _preprocess(backbone, choice) for choice in recipe.domains},
    )


def _preprocess(backbone: Backbone, choice: DomainChoice) -> Preprocess:
    preprocess = resized(backbone.preprocess, choice)
    own = {"mean": UNKNOWN, "std": UNKNOWN} if choice.statistics == "own" else {}
    return preprocess.model_copy(update=own)


def _shrunk(keeper: Keeper, recipe: Recipe, dense_bytes: int) -> _Measured:
    keeper.finish()
    meter, open_DM = keeper.meter(), keeper.pool.open_DM
    usage = meter.usage(open_DM)
    limits = tuple(keeper.limits.lines(usage))
    if not isinstance(meter, FileMeter) or usage.bytes is None:
        reason = why_not_a_file(recipe.backbone)
        return _Measured(usage, {}, limits, (NO_FILE.format(reason=reason), CHOSEN_LATER))
    bundle = meter.bundle(open_DM)
    parts = titled_parts(bundle_parts(bundle, recipe.dtype), usage.bytes)
    larger = larger_than_dense(usage.bytes, dense_bytes, SMALLER)
    return _Measured(usage, parts, limits, (*keeper.emptied(), *larger, CHOSEN_LATER))


def _unpruned(net: MultiDomainNet, backbone: Backbone, recipe: Recipe) -> _Measured:
    chosen = choose_method(recipe)
    costs = network_costs(net, backbone.probe)
    macs = tuple(costs.macs(domain) for domain in costs.domains)  # with those of adapters
    note = PENALTY if chosen.method.has_budget else NO_BUDGET
    usage = cost_usage(costs, None)
    return _Measured(Usage(usage.kernels, usage.weights, None, macs), {}, (), (note.format(name=chosen.name),))


def _steps(recipe: Recipe, images: Sequence[int]) -> int:
    training = recipe.training
    strategy = "individual" if choose_method(recipe).method.individual else training.strategy
    return num_steps(strategy, images, training.batch_size, training.num_epochs)
