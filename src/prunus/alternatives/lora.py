"""The network with LoRA adapters of PEFT, one per domain.

Shipped are the network once, and what every domain has learned. A device merges a domain's adapter into the network
before it answers, which takes no time per image; so the merged network is what is timed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from safetensors.torch import save
from torch import nn

from prunus.alternatives.alternative import Answering, Shipped, Task
from prunus.alternatives.common.exporting import write_onnx
from prunus.alternatives.common.joint import JointNetwork, count_macs
from prunus.alternatives.common.loop import fit_network
from prunus.backbone.device import choose_device
from prunus.errors import BackboneError, MissingExtraError
from prunus.files import write_atomically
from prunus.masks.layer_copies import norm_layers

if TYPE_CHECKING:
    from peft import PeftModel

RANK = 8  # PEFT's default
ALPHA = 16  # ours: PEFT's default is 8
NETWORK = "network.safetensors"


def make(task: Task) -> Shipped:
    """Train an adapter per domain, and write the network and the adapters in float32."""
    backbone = task.ours.backbone
    device = choose_device(task.device)
    state = {name: tensor.contiguous() for name, tensor in backbone.network.state_dict().items()}
    write_atomically(task.folder / NETWORK, save(state))
    files, answering, macs = [NETWORK], {}, {}
    for data in task.data:
        domain = data.name
        classes = {domain: task.classes[domain]}
        network = JointNetwork(backbone.network, backbone.probe.num_features, classes, task.recipe.seed)
        adapted = with_adapter(network)
        fit_network(adapted, [data], task.recipe, task.observer, device)
        files.append(f"{domain}.safetensors")
        write_atomically(task.folder / files[-1], adapter_bytes(adapted))
        merged = merge(adapted)
        answering[domain] = Answering(file=f"{domain}.onnx")
        write_onnx(task.folder / answering[domain].file, merged, task.size)
        macs[domain] = count_macs(merged.features, task.size)
    return Shipped(recipe=task.recipe, counted=tuple(files), answering=answering, macs=macs)


def with_adapter(network: JointNetwork) -> PeftModel:
    """Add LoRA to every convolution and linear layer; norms and the classifier are learned as they are."""
    try:
        import peft  # noqa: PLC0415  # optional
    except ImportError:
        raise MissingExtraError("peft", "versus", "training LoRA adapters") from None
    layers = adaptable_layers(network.features)
    if not layers:
        raise BackboneError("PEFT's LoRA finds no layer in this network: no linear one, and no ungrouped convolution")
    config = peft.LoraConfig(
        r=RANK,
        lora_alpha=ALPHA,
        target_modules=[f"features.{name}" for name in layers],
        modules_to_save=[*(f"features.{name}" for name in norm_layers(network.features)), "heads.0"],
    )
    return peft.get_peft_model(network, config)


def adaptable_layers(features: nn.Module) -> list[str]:
    """Return the layers that LoRA can adapt; PEFT has none for convolutions in groups of other sizes than its rank."""
    return [
        name
        for name, module in features.named_modules()
        if isinstance(module, nn.Linear) or (isinstance(module, nn.Conv2d) and module.groups == 1)
    ]


def adapter_bytes(adapted: PeftModel) -> bytes:
    """Return what PEFT saves of an adapter."""
    import peft  # noqa: PLC0415

    state = peft.get_peft_model_state_dict(adapted)
    return save({name: tensor.detach().cpu().contiguous() for name, tensor in state.items()})


def merge(adapted: PeftModel) -> JointNetwork:
    """Return the plain network with an adapter merged into its weights."""
    merged = adapted.cpu().eval().merge_and_unload()
    assert isinstance(merged, JointNetwork)
    return merged
