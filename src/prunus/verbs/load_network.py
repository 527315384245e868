"""Turn a model file back into a torch module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prunus.bundle.file import read_bundle
from prunus.bundle.packing import from_bundle
from prunus.graph.cut import cut
from prunus.verbs.arguments import ModelLike, model_path

if TYPE_CHECKING:
    from prunus.torch_graph.network import TorchNetwork


def load_network(model: ModelLike, domain: str | None = None) -> TorchNetwork:
    """Return the network of a model file as an `nn.Module`, to train it further, quantize it or export it.

    Call it with prepared images, (N, 3, S, S), and the domain: `network(images, "flowers")`.

    Args:
        domain: return the smaller network of this domain alone, which is called with images only.
    """
    from prunus.torch_graph.network import TorchNetwork  # noqa: PLC0415  # needs torch

    bundle = read_bundle(model_path(model))
    if domain is None:
        return TorchNetwork(from_bundle(bundle, bundle.domains), bundle.domains)
    bundle.check_domain(domain)
    return TorchNetwork(cut(from_bundle(bundle, [domain])), [domain])
