"""Read what a domain has learned inside a model file, as the parts that the file stores.

Legend: O = output channels, I = input channels of one group.
"""

import copy

import numpy as np
import torch

from prunus.arrays import Bools, Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry
from prunus.checkpoints.checkpoint import Checkpoint
from prunus.checkpoints.provenance import domain_entries, provenance
from prunus.editing.domains import DomainParts, TensorKey, add_domain
from prunus.editing.provenance import record_addition
from prunus.graph.channels import ChannelFlow
from prunus.graph.network import GraphNetwork, Node
from prunus.masks.network import MultiDomainNet
from prunus.masks.switches import Switches
from prunus.torch_graph.file_network import FileNetwork, conv_name


def with_learned(bundle: Bundle, net: MultiDomainNet, checkpoint: Checkpoint) -> Bundle:
    """Return a model file with the domain that a run has learned inside it."""
    identity = checkpoint.identity
    ((name, entry),) = domain_entries(identity).items()
    larger = add_domain(bundle, name, learned_parts(net, name, entry))
    grown = identity.recipe.budget.only_kernels if identity.recipe.backbone.original else None
    own = provenance(identity, checkpoint.position)
    origin = record_addition(bundle.manifest.provenance, name, own, grown)
    return Bundle(larger.manifest.model_copy(update={"provenance": origin}), larger.arrays)


@torch.no_grad()
def learned_parts(net: MultiDomainNet, domain: str, entry: DomainEntry) -> DomainParts:
    """Return what a domain has learned; kernels that nothing reads are off."""
    net = copy.deepcopy(net).cpu().eval()
    network = net.network
    assert isinstance(network, FileNetwork)
    index, convs = net.index(domain), network.bundle.manifest.convs
    tensors = dict(network.state_dict())
    for adapter in net.adapters:
        if not isinstance(adapter, Switches):
            tensors |= adapter.tensors(index, tensors)
    weights: dict[str, Floats] = {layer: tensors[f"{conv_name(layer)}.weight"].numpy() for layer in convs}
    folded = network.folded(tensors)
    head = net.heads[index]
    assert isinstance(head, torch.nn.Linear)
    classifier = head.weight.numpy(), head.bias.numpy()
    nodes = []
    for number, operation in enumerate(network.graph):
        own = {role: tensor[None] for (at, role), tensor in folded.items() if at == number}
        nodes.append(Node(operation, own))
    masks = {layer: mask_OI[None] for layer, mask_OI in _masks(net, index).items()}
    alone = GraphNetwork(tuple(nodes), network.bundle.manifest.image_size, weights, masks, (classifier,))
    used = {layer: used_DOI[0] for layer, used_DOI in ChannelFlow(alone).used.items()}
    rounded: dict[TensorKey, Floats] = {key: tensor.astype(np.float32) for key, tensor in folded.items()}
    return DomainParts(entry, used, weights, rounded, classifier)


def _masks(net: MultiDomainNet, index: int) -> dict[str, Bools]:
    network = net.network
    assert isinstance(network, FileNetwork)
    assert net.switches is not None
    switches = net.switches.layer_masks()
    shapes = {layer: (conv.out_channels, conv.in_channels) for layer, conv in network.bundle.manifest.convs.items()}
    masks: dict[str, Bools] = {
        layer: switches[conv_name(layer)][index, :, :, 0, 0].expand(shape).numpy() for layer, shape in shapes.items()
    }
    return masks
