"""Measure the training images per second of `prunus pretrain`, beside a plain loop in the same precision.

    python -m benchmarks.pretrain_speed [--device cuda] [--backbone wrn28_4] [--batch 512] [--set KEY=VALUE] [--json F]

Images are random. Our step is that of the recipe of `prunus pretrain`: crops, mirrors, and SGD on every weight with
label smoothing and weight decay. On a GPU both steps are captured as CUDA graphs, and ours is compiled, unless
`--set training.compile=false` is passed. The command fails if a target is missed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.train_step import PLAIN, milliseconds, plain, recipe_step
from prunus.backbone.zoo import load_backbone
from prunus.learning.arithmetic import arithmetic
from prunus.pretraining.recipe import pretraining_recipe
from prunus.timing.machine import describe_machine

OURS = "prunus pretrain"
TARGETS = {("NVIDIA H200", "wrn28_4"): 36_000.0}  # (machine, backbone) -> least images per second; CPUs have none


def images_per_second(times_ms: dict[str, float], batch: int) -> dict[str, float]:
    """Turn milliseconds of a step into images per second."""
    return {name: 1000 * batch / taken for name, taken in times_ms.items()}


def missed_target(speed: float, machine: str, backbone: str) -> str | None:
    """Return what was promised and not kept."""
    least = TARGETS.get((machine, backbone), 0.0)
    return f"{speed:,.0f} images/s, at least {least:,.0f} was promised" if speed < least else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--backbone")
    parser.add_argument("--size", type=int)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    name = arguments.backbone or ("wrn28_4" if device.type == "cuda" else "wrn14_2")
    overrides = [f"training.batch_size={arguments.batch}", *arguments.overrides]
    recipe = pretraining_recipe("images", name, arguments.size, overrides=overrides)
    backbone = load_backbone(recipe.backbone)
    with arithmetic(recipe.training, device):
        steps = {PLAIN: plain(backbone, device, arguments.batch), OURS: recipe_step(backbone, device, recipe)}
        speeds = images_per_second(milliseconds(steps, device, arguments.rounds), arguments.batch)
    machine = torch.cuda.get_device_name() if device.type == "cuda" else describe_machine()
    size = backbone.preprocess.size
    table = Table(title=f"{name}, {size} px, batch {arguments.batch}, {machine}, torch {torch.__version__}")
    for column in ("step", "images/s", "ms"):
        table.add_column(column, justify="right")
    for row, speed in speeds.items():
        table.add_row(row, f"{speed:,.0f}", f"{1000 * arguments.batch / speed:.3f}")
    Console().print(table)
    if arguments.json:
        content = {"machine": machine, "torch": torch.__version__, "backbone": name, "size": size}
        content |= {"batch": arguments.batch, "training": recipe.training.model_dump(mode="json")}
        arguments.json.write_text(json.dumps(content | {"images_per_second": speeds}, indent=2) + "\n")
    if missed := missed_target(speeds[OURS], machine, name):
        raise SystemExit(f"missed: {missed}")


if __name__ == "__main__":
    main()
