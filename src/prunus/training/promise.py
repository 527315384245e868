"""Prepare what keeps a recipe's budget, and refuse what cannot be kept before anything is trained."""

from prunus.backbone.zoo import Backbone
from prunus.budgets.keeper import Keeper
from prunus.budgets.limits import WRITTEN, limits_of
from prunus.budgets.meter import FileMeter, MaskMeter, Meter
from prunus.budgets.switch_costs import switch_costs
from prunus.checkpoints.checkpoint import Identity, Position
from prunus.checkpoints.provenance import domain_entries, provenance
from prunus.errors import BackboneError, RecipeError
from prunus.lowering.pack import Description, lower
from prunus.masks.network import MultiDomainNet
from prunus.methods.costs import dense_costs
from prunus.methods.exact import Options
from prunus.methods.table import choose_method
from prunus.parallel.processes import ALONE, Processes

LONG = Position(step=10**7, total_steps=10**7)  # a file names its steps: as long as they may get


def make_keeper(
    net: MultiDomainNet, backbone: Backbone, identity: Identity, processes: Processes = ALONE
) -> Keeper | None:
    """Return what keeps the limits of a run; None if its method does not promise to."""
    recipe = identity.recipe
    options, pool = choose_method(recipe).options, net.switches
    if not isinstance(options, Options) or pool is None:
        return None
    description = Description(backbone.name, net.dense_bytes(), domain_entries(identity), provenance(identity, LONG))

    def meter() -> Meter:
        try:
            return FileMeter(lower(net), description, pool.layout, recipe.dtype)
        except BackboneError as error:
            if recipe.budget.bytes is not None:
                raise RecipeError(f"budget.bytes needs a network that a model file can hold: {error}") from None
            return MaskMeter(pool.layout, backbone.probe.positions)

    costs = switch_costs(pool.layout, backbone.probe.positions, len(net.domains), recipe.dtype, net.device)
    limits = limits_of(recipe.budget, net.domains, dense_costs(backbone))
    keeper = Keeper(net, limits, costs, meter, options.until, processes.broadcast_)
    refuse_unreachable(keeper)
    return keeper


def refuse_unreachable(keeper: Keeper) -> None:
    """Refuse limits that even the smallest network exceeds, and name the smallest values that can be kept."""
    for line in keeper.limits.lines(keeper.smallest()):
        if not line.is_kept:
            write = WRITTEN[line.name]
            of = f" of domain {line.domain!r}" if line.domain else ""
            raise RecipeError(
                f"the budget of {write(line.limit)}{of} cannot be kept: with one {keeper.pool.layout.granularity} per "
                f"layer, this network and its domains take {write(line.used)}; set budget.{line.name} to at least that"
            )
