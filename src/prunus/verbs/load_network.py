"""Turn a model file back into a torch module."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from prunus.amounts import plural
from prunus.bundle.file import read_bundle
from prunus.bundle.packing import from_bundle
from prunus.errors import AccuracyWarning
from prunus.graph.cut import cut
from prunus.names import shown
from prunus.verbs.arguments import ModelLike, model_path

if TYPE_CHECKING:
    from prunus.torch_graph.network import TorchNetwork


def load_network(model: ModelLike, domain: str | None = None) -> TorchNetwork:
    """Return the network of a model file as an `nn.Module`, to train it further, quantize it or export it.

    Call it with prepared images, (N, 3, S, S), and the domain: `network(images, "flowers")`. The module computes with
    floats. What an 8-bit file computes with integers has other results then, and a warning says so: load the file of
    floats instead.

    Args:
        domain: return the smaller network of this domain alone, which is called with images only.
    """
    from prunus.torch_graph.network import TorchNetwork  # noqa: PLC0415  # needs torch

    path = model_path(model)
    bundle = read_bundle(path)
    if integers := len(bundle.manifest.integers):
        warnings.warn(
            shown(
                f"{path} computes {plural(integers, 'operation')} with 8-bit integers, but the module with floats, so "
                "its logits differ from the file's; load the file of floats instead"
            ),
            AccuracyWarning,
            stacklevel=2,
        )
    if domain is None:
        return TorchNetwork(from_bundle(bundle, bundle.domains), bundle.domains)
    bundle.check_domain(domain)
    return TorchNetwork(cut(from_bundle(bundle, [domain])), [domain])
