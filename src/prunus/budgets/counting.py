"""Count what a network in training uses, as its model file would have it: kernels that nothing reads do not count."""

from collections.abc import Mapping

import torch

from prunus.bundle.manifest import DomainEntry
from prunus.errors import BackboneError
from prunus.images import Preprocess
from prunus.lowering.pack import Description, bundle_of, lower
from prunus.masks.network import MultiDomainNet
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.cost import CostReport, count_layer


@torch.no_grad()
def used_kernels(net: MultiDomainNet, preprocess: Mapping[str, Preprocess], packable: bool) -> CostReport:
    """Return the kernels that each domain uses, as a measurement of the finished run counts them.

    Args:
        preprocess: of every domain.
        packable: whether a model file can hold the method; if not, the masks are counted, and reported as one layer.
    """
    if packable:
        entries = {name: DomainEntry(classes=net.classes[name], preprocess=preprocess[name]) for name in net.domains}
        try:
            description = Description("", net.dense_bytes(), entries, {})
            return bundle_costs(bundle_of(lower(net), description, has_switches=net.switches is not None))
        except BackboneError:  # the network itself does not fit into a file
            pass
    mask_DK = net.switches.kernel_masks() if net.switches else torch.ones(len(net.domains), 1, dtype=torch.bool)
    return CostReport(net.domains, (count_layer("all", mask_DK[:, None].cpu().numpy(), 0, 0),), ())
