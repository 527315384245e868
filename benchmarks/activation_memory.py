"""Measure what each method keeps in memory between the forward and the backward pass of one training step.

    python -m benchmarks.activation_memory [--backbone wrn28_4] [--batch 32] [--device cpu] [--json FILE]

Counted by torch's allocator: the bytes that a forward pass allocates and keeps. `bn` is the baseline of the ratio.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from prunus.backbone.zoo import load_backbone
from prunus.config import BackboneChoice
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import METHODS, adapt
from prunus.timing.machine import describe_machine

BASELINE = "bn"


def _loss(net: MultiDomainNet, images: Tensor, labels: Tensor, domain: str) -> Tensor:
    logits = net(images, domain)
    extra = net.extra_loss(domain, logits, labels)
    loss = F.cross_entropy(logits, labels)
    return loss if extra is None else loss + extra


def held_bytes(net: MultiDomainNet, images: Tensor, labels: Tensor, domain: str) -> int:
    """Return the bytes that a forward pass allocates and keeps, as torch's allocator counts them."""
    net.train()
    if images.is_cuda:
        before = torch.cuda.memory_allocated()
        loss = _loss(net, images, labels, domain)
        held = torch.cuda.memory_allocated() - before
    else:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            loss = _loss(net, images, labels, domain)
        # allocations are positive, releases negative
        held = sum(event.self_cpu_memory_usage for event in profiler.key_averages())
    del loss
    return int(held)


def measure(backbone_name: str, batch: int, device: str) -> dict[str, int]:
    backbone = load_backbone(BackboneChoice(name=backbone_name))
    size = backbone.preprocess.size
    images = torch.randn(batch, 3, size, size, device=device)
    labels = torch.arange(batch, device=device) % 2
    held = {}
    for method in METHODS:
        net = adapt(backbone, {"domain": ["a", "b"]}, method).to(device)
        held_bytes(net, images, labels, "domain")  # the first pass also allocates workspaces
        held[method] = held_bytes(net, images, labels, "domain")
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="wrn28_4")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    held = measure(arguments.backbone, arguments.batch, arguments.device)
    table = Table(title=f"{arguments.backbone}, batch of {arguments.batch}, {arguments.device}")
    for name in ("method", "held", f"relative to {BASELINE}"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for method, count in held.items():
        table.add_row(method, f"{count / 1e6:.1f} MB", f"{count / held[BASELINE]:.3f}")
    Console().print(table)
    print(describe_machine())
    if arguments.json:
        content = {"machine": describe_machine(), "torch": torch.__version__.split("+")[0], "held_bytes": held}
        content |= {"backbone": arguments.backbone, "batch": arguments.batch, "device": arguments.device}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
