"""How long one training step takes, beside plain fine-tuning of the same network in the same precision and mode.

    python -m benchmarks.train_step [--device cuda] [--backbone wrn28_4] [--batch 64] [--domains 1,9,10,100]

Images are random. Ours is the whole step of method "union": crops, masks, both constraints and all updates. Plain
fine-tuning trains every weight of one network with SGD on the same crops. On a GPU both are captured as CUDA graphs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table

from prunus.backbone.zoo import Backbone, load_backbone
from prunus.config import BackboneChoice, DomainChoice, Recipe, Sharing, Training
from prunus.data.loading import ImageSet
from prunus.methods.table import adapt
from prunus.timing.machine import describe_machine
from prunus.training.captured import StepRunner
from prunus.training.feed import DomainData, Feed, make_feeds
from prunus.training.learner import Learner

IMAGES = 512  # of a domain
CLASSES = 10
TARGETS = {"cuda": {"over_plain": 1.25, 10: 1.05, 100: 1.40}, "cpu": {"over_plain": 1.30}}


def make_data(backbone: Backbone, count: int) -> list[DomainData]:
    rng = np.random.default_rng(0)
    side = backbone.preprocess.resize
    images = rng.integers(0, 256, (IMAGES, 3, side, side), dtype=np.uint8)
    labels = rng.integers(0, CLASSES, IMAGES)
    return [DomainData(f"d{i}", backbone.preprocess, True, ImageSet(images, labels), None) for i in range(count)]


def ours(backbone: Backbone, device: torch.device, domains: int, batch: int) -> Callable[[], None]:
    """Return our step, one domain after the other."""
    names = [f"d{i}" for i in range(domains)]
    recipe = Recipe(
        backbone=BackboneChoice(name=backbone.name),
        domains=tuple(DomainChoice(name=name, path=name) for name in names),
        sharing=Sharing(loss="union"),
        training=Training(batch_size=batch),
    )
    net = adapt(backbone, dict.fromkeys(names, tuple(map(str, range(CLASSES)))), "union").to(device)
    learner = Learner(net, recipe)
    feeds = make_feeds(make_data(backbone, domains), device)
    runner = StepRunner(learner, feeds)
    steps = _batches(feeds, batch)

    def step() -> None:
        domain, picks = next(steps)
        runner.run([(domain, picks)], 1.0)

    return step


def _batches(feeds: list[Feed], batch: int) -> Iterator[tuple[int, torch.Tensor]]:
    rng = np.random.default_rng(0)
    generator = torch.Generator().manual_seed(0)
    for domain in itertools.cycle(range(len(feeds))):
        yield domain, feeds[domain].draw(rng.permutation(IMAGES)[:batch], generator)


def plain(backbone: Backbone, device: torch.device, batch: int) -> Callable[[], None]:
    """Return a step of plain fine-tuning, captured on a GPU."""
    on_gpu = device.type == "cuda"
    features = load_backbone(BackboneChoice(name=backbone.name, weights="random")).network
    network = torch.nn.Sequential(features, torch.nn.Linear(backbone.probe.num_features, CLASSES)).to(device).train()
    network.requires_grad_(True)
    if on_gpu:
        network.to(memory_format=torch.channels_last)
    lr = torch.tensor(0.01, device=device) if on_gpu else 0.01
    sgd = torch.optim.SGD(network.parameters(), lr=lr, momentum=0.9, fused=on_gpu)
    (feed,) = make_feeds(make_data(backbone, 1), device)
    static = torch.zeros(batch, 4, dtype=torch.int64, device=device)
    steps = _batches([feed], batch)

    def learn() -> None:
        made = feed.batch(static)
        sgd.zero_grad(set_to_none=True)
        images = made.images.contiguous(memory_format=torch.channels_last) if on_gpu else made.images
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu, cache_enabled=False):
            logits = network(images)
        F.cross_entropy(logits.float(), made.labels).backward()  # type: ignore[no-untyped-call]
        sgd.step()

    for _ in range(3):
        static.copy_(next(steps)[1])
        learn()
    if not on_gpu:

        def step() -> None:
            static.copy_(next(steps)[1])
            learn()

        return step
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        learn()
    kept_alive = (network, sgd)  # a graph does not own the memory that it reads

    def replay() -> None:
        assert kept_alive
        static.copy_(next(steps)[1], non_blocking=True)
        graph.replay()

    return replay


def milliseconds(steps: dict[str, Callable[[], None]], device: torch.device, rounds: int) -> dict[str, float]:
    """Time blocks of steps in turn and return the median of a step."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    block = 20 if device.type == "cuda" else 3
    for _ in range(rounds):
        for name, step in steps.items():
            _wait(device)
            began = time.perf_counter()
            for _ in range(block):
                step()
            _wait(device)
            times[name].append(1000 * (time.perf_counter() - began) / block)
    return {name: statistics.median(taken) for name, taken in times.items()}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--backbone")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--domains", default="1,9,10,100")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    name = arguments.backbone or ("wrn28_4" if device.type == "cuda" else "wrn14_2")
    backbone = load_backbone(BackboneChoice(name=name, weights="random"))
    counts = [int(count) for count in arguments.domains.split(",")]
    steps = {"plain fine-tuning": plain(backbone, device, arguments.batch)}
    for count in counts:
        step = ours(backbone, device, count, arguments.batch)
        for _ in range(2 * count + 2):  # the first run of every domain, then its capture
            step()
        steps[f"ours, {count} domains"] = step
    times = milliseconds(steps, device, arguments.rounds)
    table = Table(title=f"{name}, batch {arguments.batch}, {device.type}, torch {torch.__version__}")
    for column in ("step", "ms", "over plain"):
        table.add_column(column, justify="right")
    for row, taken in times.items():
        table.add_row(row, f"{taken:.3f}", f"{taken / times['plain fine-tuning']:.3f}")
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": describe_machine(), "ms": times}, indent=2) + "\n")


if __name__ == "__main__":
    main()
