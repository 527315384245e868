"""The grid of the studies: which runs test the claims of the paper, most informative first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

SOURCE = "tiny_imagenet"  # what the backbones were pretrained on; one of the nine domains
CLASSES = {  # of every domain of both studies
    "cifar10": 10,
    "cub": 200,
    "dtd": 10,
    "flowers": 102,
    "gtsrb": 43,
    "omniglot": 406,
    "person": 2,
    "sketches": 250,
    SOURCE: 200,
    "characters": 50,
    "clothing": 10,
    "fashion": 10,
    "fruits": 25,
    "signs": 10,
}
LONG = 3  # times as many, as a check on the schedule
# The paper's schedule and order of the domains. Its rates belong to sixty times as many steps, so these are higher.
PAPER = {"batch_size": 64, "lr": 0.01, "weight_lr": 0.01, "switch_lr": 2e-4, "dual_rate": 0.5}
OURS = {"batch_size": 64, "lr": 0.01, "weight_lr": 0.04, "switch_lr": 1e-4}
DECAY = {"weight_decay": 5e-4}  # for methods that train weights; masks over frozen weights have none to decay
# the best of five rates on validation images, in the longer cosine schedule of docs/results/exact/finetune_rates.json
FINETUNE = {"lr": 0.03, "weight_lr": 0.03, **DECAY}
THREE = (0, 1, 2)
ONE = (0,)


@dataclass(frozen=True)
class Row:
    """A row of the grid.

    Args:
        training: changes of the training settings.
        choice: other changes of the recipe.
        seeds: it is trained once with each.
        split: "test" after training on the training and validation images; "validation" as in the paper's ablations.
        source_apart: whether the unpruned backbone serves the source, as in the paper.
        epochs: times the usual length.
    """

    method: str
    budget: float | None = None
    training: Mapping[str, object] = field(default_factory=dict)
    choice: Mapping[str, object] = field(default_factory=dict)
    seeds: tuple[int, ...] = THREE
    split: str = "test"
    source_apart: bool = False
    epochs: int = 1


def _ablation(
    method: str, budget: float, choice: Mapping[str, object] = MappingProxyType({}), **training: object
) -> Row:
    """Return a row of one seed, measured on validation images."""
    return Row(method, budget, training, choice, ONE, "validation")


def _name(method: str, budget: float) -> str:
    return f"{method}-{budget:g}"


LOSSES = ("union", "intersection", "jaccard")
LEARNED = {_name(f"learned-{loss}", beta): _ablation(loss, beta) for beta in (0.25, 0.5, 0.75) for loss in LOSSES}
FIXED = {
    f"fixed-{loss}-{weight:g}": _ablation(loss, 0.25, {"sharing": {"weight": weight}})
    for weight in (1.0, 0.125)
    for loss in LOSSES
}
RATES = {
    f"dual_rate-{loss}-{rate:g}": _ablation(loss, 0.25, sharing_dual_rate=rate)  # that of the budget stays the same
    for loss in ("union", "jaccard")
    for rate in (0.01, 0.1)
}
ORDERS = {
    "order-ba2-round_robin": _ablation("ba2", 0.25),
    "order-ba2-alternate": _ablation("ba2", 0.25, strategy="alternate"),
    "order-ba2-mixed": _ablation("ba2", 0.25, strategy="mixed"),
    "order-union-alternate": _ablation("union", 0.25, strategy="alternate"),
    "order-union-mixed": _ablation("union", 0.25, strategy="mixed"),
    "frozen-others": _ablation("union", 0.25, {"sharing": {"freeze_others": True}}),
}
UNITS = {
    f"budget_per-{unit}": _ablation("ba2", 0.25, {"method": {"name": "ba2", "budget_per": unit}})
    for unit in ("layer", "macs")
}


def _masked(*budgets: float) -> dict[str, Row]:
    return {_name(method, beta): Row(method, beta) for beta in budgets for method in ("ba2", "union")}


GRID: dict[str, Row] = {
    "feature": Row("feature"),
    "finetune": Row("finetune", training=FINETUNE),
    **_masked(0.25),
    "ba2_individual-0.25": Row("ba2_individual", 0.25),
    **{name: LEARNED[name] for name in LEARNED if name.endswith("-0.25")},
    **ORDERS,
    "exact-0.25": Row("exact", 0.25),
    **_masked(0.5, 0.75, 1.0),
    "taps-1": Row("taps", training=DECAY, choice={"method": {"name": "taps", "sparsity": 1.0}}),
    "taps-0.25": Row("taps", training=DECAY, choice={"method": {"name": "taps", "sparsity": 0.25}}),
    **{name: LEARNED[name] for name in LEARNED if not name.endswith("-0.25")},
    **FIXED,
    **RATES,
    "union-0.25-source_apart": Row("union", 0.25, seeds=ONE, source_apart=True),
    "exact-0.25-source_apart": Row("exact", 0.25, seeds=ONE, source_apart=True),
    **UNITS,
    "bn": Row("bn"),
    "exact-0.125": Row("exact", 0.125),
    "exact-0.0625": Row("exact", 0.0625),
    "piggyback": Row("piggyback"),
    "parallel_adapters": Row("parallel_adapters", training={"weight_lr": 0.1, **DECAY}),  # the authors'
    "ba2_individual-1": Row("ba2_individual", 1.0, seeds=ONE),
    "ba2-0.25-long": Row("ba2", 0.25, seeds=ONE, epochs=LONG),
    "union-0.25-long": Row("union", 0.25, seeds=ONE, epochs=LONG),
}
