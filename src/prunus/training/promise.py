"""Prepare what keeps a recipe's budget, and refuse what cannot be kept before anything is trained."""

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch

from prunus.backbone.zoo import Backbone
from prunus.budgets.growth import GrowthKeeper
from prunus.budgets.keeper import Keeper
from prunus.budgets.limits import Usage, limits_of
from prunus.budgets.meter import FileMeter, MaskMeter, NetworkMeter
from prunus.budgets.switch_costs import switch_costs
from prunus.checkpoints.checkpoint import Identity, Position
from prunus.checkpoints.provenance import domain_entries, provenance
from prunus.config import Budget, Recipe
from prunus.errors import BackboneError, BundleError, NoFileError, RecipeError
from prunus.granularity import unit_name
from prunus.lowering.computed_macs import computed
from prunus.lowering.pack import Description, lower
from prunus.masks.layer_copies import DomainNorms, LayerCopies
from prunus.masks.network import MultiDomainNet
from prunus.measure.budget import LimitUse, whole_share, write_amount
from prunus.measure.cost import CostReport
from prunus.methods.costs import dense_costs
from prunus.methods.exact import Options
from prunus.methods.table import choose_method
from prunus.parallel.processes import ALONE, Processes
from prunus.torch_graph.file_network import FileNetwork

NOISE = 1e-3  # too little to silence a channel
Smallest = Callable[[Mapping[str, object]], tuple[Keeper, Usage]]
LONG = Position(step=10**7, total_steps=10**7)  # a file names its steps: as long as they may get


def make_keeper(
    net: MultiDomainNet, backbone: Backbone, identity: Identity, processes: Processes = ALONE
) -> Keeper | None:
    """Return what keeps the limits of a run; None if its method does not promise to."""
    options = choose_method(identity.recipe).options
    if not isinstance(options, Options) or net.switches is None:
        return None
    backbone = as_computed(net, backbone)
    smallest = partial(_smallest, as_if_trained(net), backbone, identity, options)
    try:
        refuse_unreachable(smallest, identity.recipe.budget, dense_costs(backbone))
    except BundleError as error:  # its file would be too costly to read
        raise RecipeError(
            f'{error}; choose a smaller network, or train without a file by a method that keeps no budget: "union"'
        ) from None
    return _keeper(net, backbone, identity, options, processes)


def as_computed(net: MultiDomainNet, backbone: Backbone) -> Backbone:
    """Return the backbone with the MACs that its model file computes; unchanged where no file can hold the network."""
    try:
        return replace(backbone, probe=computed(lower(net), backbone.probe))
    except (BackboneError, BundleError):
        return backbone


def make_growth_keeper(
    net: MultiDomainNet, backbone: Backbone, recipe: Recipe, processes: Processes = ALONE
) -> GrowthKeeper | None:
    """Return what keeps the number of kernels that a domain adds to a model file; None if it may add none."""
    options = choose_method(recipe).options
    if not isinstance(options, Options) or options.weights == "frozen" or backbone.kept is None:
        return None
    if recipe.backbone.original is None:
        raise RecipeError(
            'a model file grows by kernels of its original network; set backbone.original = "pretrained" or the path '
            'of its weights, or set method.weights = "frozen"'
        )
    share = recipe.budget.only_kernels
    if share is None or len(net.domains) > 1:
        raise RecipeError("a model file can grow for one new domain, by a share of its kernels; set budget to a share")
    if options.granularity not in ("auto", "kernel"):
        raise RecipeError('a model file grows by single kernels; remove granularity, or set method.weights = "frozen"')
    assert isinstance(backbone.network, FileNetwork)
    dense = sum(conv.dense_kernels for conv in backbone.network.bundle.manifest.convs.values())
    most = whole_share(share, dense)
    if most == 0:
        raise RecipeError(
            f"{share:.12g} of {dense} kernels is less than one; let the model grow by more, or not at all"
        )
    return GrowthKeeper(net, backbone.kept, most, options.until, processes.broadcast_)


def _keeper(
    net: MultiDomainNet, backbone: Backbone, identity: Identity, options: Options, processes: Processes = ALONE
) -> Keeper:
    recipe, pool = identity.recipe, net.switches
    assert pool is not None
    description = Description(backbone.name, net.dense_bytes(), domain_entries(identity), provenance(identity, LONG))

    def meter() -> NetworkMeter:
        try:
            return FileMeter(lower(net), description, pool.layout, recipe.dtype)
        except NoFileError as error:
            if recipe.budget.bytes is not None:
                raise RecipeError(
                    f"budget.bytes needs a network that a model file can hold, but {error.reason}; "
                    "set budget.kernels instead, or choose another network"
                ) from None
            return MaskMeter(pool.layout, backbone.probe.positions, backbone.probe.product_macs)

    costs = switch_costs(pool.layout, backbone.probe.positions, len(net.domains), recipe.dtype, net.device)
    limits = limits_of(recipe.budget, net.domains, dense_costs(backbone))
    return Keeper(net, limits, costs, meter, options.until, processes.broadcast_)


@torch.no_grad()
def as_if_trained(net: MultiDomainNet) -> MultiDomainNet:
    """Return a copy that takes as many bytes as after training.

    Before training, norms are the same in all domains and biases may be 0: a file holds what is the same only once,
    and no zeros.
    """
    net = copy.deepcopy(net)
    generator = torch.Generator().manual_seed(0)
    for copies in (adapter for adapter in net.adapters if isinstance(adapter, LayerCopies)):
        for tensor in copies.state_dict().values():
            if tensor.is_floating_point() and (isinstance(copies, DomainNorms) or not tensor.any()):
                noise = torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype)
                tensor.add_(NOISE * noise.to(tensor.device))  # not below 0: variances stay positive
    return net


def _smallest(
    net: MultiDomainNet, backbone: Backbone, identity: Identity, options: Options, changes: Mapping[str, object]
) -> tuple[Keeper, Usage]:
    """Measure the smallest network, with some limits of its recipe changed."""
    budget = identity.recipe.budget.model_copy(update=dict(changes))
    identity = identity.model_copy(update={"recipe": identity.recipe.model_copy(update={"budget": budget})})
    keeper = _keeper(net, backbone, identity, options)
    return keeper, keeper.smallest()


def refuse_unreachable(smallest: Smallest, budget: Budget, dense: CostReport) -> None:
    """Refuse limits that even the smallest network exceeds, and name the smallest values that can be kept.

    Args:
        smallest: measures the smallest network, with some limits of the budget changed.
    """
    keeper, usage = smallest({})
    missed = _missed(keeper.limits.lines(usage), budget)
    if not missed:
        return
    totals: dict[str, int] = {"kernels": dense.num_kernels(), "weights": dense.dense_weights()}
    least: dict[str, float] = {
        key: _share(line.used, totals[key]) if key in totals else line.used for key, line in missed.items()
    }
    if "bytes" in least:  # of a file that names all its limits
        changes = _changes(budget, {key: value for key, value in least.items() if key != "bytes"})
        least["bytes"] = least_bytes(
            smallest(changes)[1].bytes or 0, lambda size: smallest(changes | {"bytes": size})[1].bytes or 0
        )
    allowed = [
        f"{line.limit:,} of {totals[key]:,} {key}" if key in totals else write_amount(line.name, line.limit)
        for key, line in missed.items()
    ]
    needed = [write_amount(line.name, int(least[key]) if key == "bytes" else line.used) for key, line in missed.items()]
    owners = [f" for domain {line.domain!r}" if "." in key else "" for key, line in missed.items()]
    unit = unit_name(keeper.pool.layout.granularity)
    reserve = ", and the size has a reserve of a few dozen bytes" if "bytes" in least else ""
    raise RecipeError(
        f"the budget of {_listed(allowed, owners)} cannot be kept: the smallest network takes "
        f"{_listed(needed, owners)} (one {unit} per layer stays, kernels that nothing reads do not count{reserve}); "
        f"set {_listed([f'budget.{key} to at least {value:.12g}' for key, value in least.items()])}"
    )


def _missed(lines: Iterable[LimitUse], budget: Budget) -> dict[str, LimitUse]:
    """Return the limits that are exceeded by their keys in a recipe; of domains with one key, the costliest."""
    missed: dict[str, LimitUse] = {}
    for line in (line for line in lines if not line.kept):
        key = f"macs.{line.domain}" if line.name == "macs" and isinstance(budget.macs, dict) else line.name
        if key not in missed or line.used > missed[key].used:
            missed[key] = line
    return missed


def _changes(budget: Budget, values: Mapping[str, float]) -> dict[str, object]:
    """Return the limits of a budget that change if some keys are set to other values."""
    own = {key.removeprefix("macs."): value for key, value in values.items() if key.startswith("macs.")}
    changes: dict[str, object] = {key: value for key, value in values.items() if "." not in key}
    return changes | ({"macs": {**budget.macs, **own}} if isinstance(budget.macs, dict) else {})


def _listed(parts: Sequence[str], endings: Sequence[str] = ()) -> str:
    """Join parts, each with its ending, as in "a, b and c"."""
    *others, last = [part + ending for part, ending in zip(parts, endings or [""] * len(parts), strict=True)]
    return f"{', '.join(others)} and {last}" if others else last


def least_bytes(needed: int, measure: Callable[[int], int]) -> int:
    """Find the smallest file that fits its own limit: a file names its limit, and a longer number takes more bytes."""
    size = needed
    while (needed := measure(size)) > size:
        size = needed
    return size


def _share(used: int, total: int) -> float:
    """Return the smallest share of a total that is enough, with six digits."""
    return math.ceil(10**6 * used / total) / 10**6
