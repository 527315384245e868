"""One fine-tuned network per domain, each in 8 bits."""

import copy

import torch

from prunus.alternatives.alternative import Answering, Shipped, Task
from prunus.alternatives.common.exporting import write_onnx
from prunus.alternatives.common.joint import JointNetwork, count_macs
from prunus.masks.network import MultiDomainNet
from prunus.recipes import TRAINED_FIRST
from prunus.run_folder import RunFolder
from prunus.training.run import open_run, teacher_recipe, train_or_continue


def make(task: Task) -> Shipped:
    """Train method `finetune` and write a network per domain."""
    folder = task.folder / "run"
    if task.recipe.teacher == TRAINED_FIRST:  # these very networks have taught ours
        folder = RunFolder(task.ours.folder).teacher
    train_or_continue(teacher_recipe(task.recipe), folder, task.observer.observers, task.device, task.use_cache)
    net = open_run(folder, "cpu").net
    answering, macs = {}, {}
    for domain in task.classes:
        network = one_domain(net, domain)
        file = f"{domain}.onnx"
        write_onnx(task.folder / file, network, task.size, task.calibration[domain])
        answering[domain] = Answering(file=file)
        macs[domain] = count_macs(network.features, task.size)
    files = tuple(answer.file for answer in answering.values())
    return Shipped(recipe=task.recipe, counted=files, answering=answering, macs=macs)


@torch.no_grad()
def one_domain(net: MultiDomainNet, domain: str) -> JointNetwork:
    """Return the network of one domain with its own numbers in it."""
    index = net.index(domain)
    head = net.heads[index]
    network = JointNetwork(net.network, head.get_parameter("weight").shape[1], {domain: len(net.classes[domain])}, 0)
    network.features.load_state_dict(net.tensors(domain), strict=False)
    network.heads[0] = copy.deepcopy(head)
    return network.eval()
