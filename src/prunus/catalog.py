"""The methods and the bundled backbones in words and numbers, so that they can be listed without torch.

`catalog.json` is written by `python -m tests.makers.catalog` from the tables that train; a test compares them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from pydantic import JsonValue, TypeAdapter

EXAMPLE = "wrn28_4"  # the network whose costs are listed
NUM_DOMAINS = 9  # besides its source domain


@dataclass(frozen=True)
class Option:
    """A key of a recipe's [method] table."""

    default: JsonValue
    description: str


@dataclass(frozen=True)
class MethodDescription:
    """One method; its ratios are for the source domain and nine more on the example network, before pruning.

    Args:
        keeps_budget: whether it ends within every limit of the budget, by construction.
        masked: whether it has switches.
        sharing: its sharing loss, if it has one.
    """

    name: str
    summary: str
    paper: str
    cost: str
    options: Mapping[str, Option]
    has_budget: bool
    keeps_budget: bool
    masked: bool
    sharing: str | None
    params_ratio: float
    macs_ratio: float


@dataclass(frozen=True)
class ZooRow:
    """One backbone; `switches` counts its kernels, `kernel_weights` their numbers, and `macs` one image.

    A weight of a linear layer is one kernel. `notes` say what the numbers leave out.
    """

    name: str
    input_size: int
    kernel_weights: int
    switches: int
    macs: int
    weights: str
    top1: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Catalog:
    """All methods and all bundled backbones, in the order of their tables."""

    methods: tuple[MethodDescription, ...]
    backbones: tuple[ZooRow, ...]


CATALOG = TypeAdapter(Catalog)


@lru_cache(maxsize=1)
def read_catalog() -> Catalog:
    """Read the catalog that the package holds."""
    return CATALOG.validate_json((files("prunus") / "catalog.json").read_bytes())


def find_described(name: str) -> MethodDescription | None:
    """Return the description of a method; None for a method that was added to the table by others."""
    return next((method for method in read_catalog().methods if method.name == name), None)
