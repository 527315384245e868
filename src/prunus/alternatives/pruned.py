"""One network that all domains train together, cut by Torch-Pruning to our multiply-accumulates, in 8 bits."""

from prunus.alternatives.alternative import Shipped, Task
from prunus.alternatives.common.cutting import cut_to, cuttable
from prunus.alternatives.common.joint import JointNetwork
from prunus.alternatives.common.loop import fit_network
from prunus.alternatives.probe import ship_together
from prunus.backbone.device import choose_device


def make(task: Task) -> Shipped:
    """Train, cut and train again, each time for the length of our training."""
    backbone = task.ours.backbone
    device = choose_device(task.device)
    features = cuttable(backbone.network, task.size)
    network = JointNetwork(features, backbone.probe.num_features, task.classes, task.recipe.seed)
    fit_network(network, task.data, task.recipe, task.observer, device)
    smaller = cut_to(network, task.macs_of_ours(), task.size)
    fit_network(smaller, task.data, task.recipe, task.observer, device)
    return ship_together(task, smaller)
