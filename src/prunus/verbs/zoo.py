"""List backbones: their size, their input, and the origin of their weights."""

from collections.abc import Sequence
from dataclasses import dataclass

from prunus.backbone.zoo import ZOO, load_backbone
from prunus.config import BackboneChoice
from prunus.methods.costs import dense_costs


@dataclass(frozen=True)
class ZooRow:
    """One backbone; `switches` counts its kernels and `macs` one image."""

    name: str
    input_size: int
    conv_weights: int
    switches: int
    macs: int
    weights: str
    top1: float | None


def zoo(names: Sequence[str] = ()) -> list[ZooRow]:
    """Describe the bundled backbones, or any others by name; no weights are downloaded."""
    return [_describe(name) for name in names or ZOO]


def _describe(name: str) -> ZooRow:
    backbone = load_backbone(BackboneChoice(name=name, weights="random"))
    costs = dense_costs(backbone)
    entry = ZOO.get(name)
    return ZooRow(
        name,
        backbone.preprocess.size,
        costs.dense_weights(),
        costs.num_kernels(),
        costs.dense_macs(),
        f"bundled ({entry.trained_on})" if entry else "timm, from the hub or a local file",
        entry.top1 if entry else None,
    )
