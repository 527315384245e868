"""One fine-tuned network per domain, each in 8 bits."""

import copy
import json

import torch

from prunus.alternatives.alternative import Answering, Shipped, Task
from prunus.alternatives.common.exporting import write_onnx
from prunus.alternatives.common.joint import JointNetwork, count_macs
from prunus.config import Recipe
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import with_method
from prunus.training.run import open_run, train_or_continue


def make(task: Task) -> Shipped:
    """Train method `finetune` and write a network per domain."""
    train_or_continue(
        with_plain_method(task.recipe, "finetune"),
        task.run_folder,
        task.observer.observers,
        task.device,
        task.use_cache,
    )
    net = open_run(task.run_folder, "cpu").net
    answering, macs = {}, {}
    for domain in task.classes:
        network = one_domain(net, domain)
        file = f"{domain}.onnx"
        write_onnx(task.folder / file, network, task.size, task.calibration[domain])
        answering[domain] = Answering(file=file)
        macs[domain] = count_macs(network.features, task.size)
    files = tuple(answer.file for answer in answering.values())
    return Shipped(recipe=task.recipe, counted=files, answering=answering, macs=macs)


def with_plain_method(recipe: Recipe, name: str) -> Recipe:
    """Return a recipe with a method that has no switches, and all else as it is."""
    own = {"method", "budget", "granularity", "sharing", "init", "teacher", "dtype"}
    content = recipe.model_dump(mode="json", exclude=own) | {"method": name}
    content["training"].pop("quantize", None)
    return with_method(Recipe.model_validate_json(json.dumps(content)))


@torch.no_grad()
def one_domain(net: MultiDomainNet, domain: str) -> JointNetwork:
    """Return the network of one domain with its own numbers in it."""
    index = net.index(domain)
    head = net.heads[index]
    network = JointNetwork(net.network, head.get_parameter("weight").shape[1], {domain: len(net.classes[domain])}, 0)
    network.features.load_state_dict(net.tensors(domain), strict=False)
    network.heads[0] = copy.deepcopy(head)
    return network.eval()
