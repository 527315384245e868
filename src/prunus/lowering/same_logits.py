"""Compare the logits of a bundle with those of the network that it was made of.

A mistake on the way from a network to its file would otherwise show only in wrong predictions.
"""

import copy

import torch
from torch import Tensor, nn

from prunus.bundle.bundle import Bundle
from prunus.bundle.packing import from_bundle
from prunus.errors import NoFileError
from prunus.masks.network import MultiDomainNet
from prunus.torch_graph.network import TorchNetwork

CLOSE = 1e-4  # of the largest logit without its bias, beside which that of small features would not be seen
ROUNDED = 10  # times what rounding changes: sums in another order are rounded differently
ADVICE = "this is a mistake in Prunus, so please report it; measure the run itself with: prunus evaluate RUN"


@torch.no_grad()
def check_logits(net: MultiDomainNet, bundle: Bundle) -> None:
    """Refuse a bundle that has other logits than a network in evaluation mode, for a random image in any domain."""
    sides = (net.image_size, net.image_size)
    image = torch.randn(1, 3, *sides, generator=torch.Generator().manual_seed(0))
    file = TorchNetwork(from_bundle(bundle, net.domains), net.domains)
    for domain, head in zip(net.domains, net.heads, strict=True):
        expected, found = net(image, domain), file(image, domain)
        away, largest = _largest(found - expected), _largest(expected - head.get_parameter("bias"))
        if away <= CLOSE * largest or not bool(expected.isfinite().all()):
            continue  # to numbers that are infinite or none at all, nothing is close
        rounding = _rounding(net, image, domain, expected) + _rounding(file, image, domain, found)
        if not away <= ROUNDED * rounding:
            raise NoFileError(
                f"its logits as a graph differ by {away / largest:.1e} of the largest in domain {domain!r}", ADVICE
            )


def _rounding(module: nn.Module, image: Tensor, domain: str, logits: Tensor) -> float:
    """Return how far logits are from those in double precision."""
    try:
        exact: Tensor = copy.deepcopy(module).double()(image.double(), domain)
    except RuntimeError:  # the network's own code casts to float32
        return 0.0
    return _largest(exact - logits)


def _largest(numbers: Tensor) -> float:
    return float(numbers.abs().max())
