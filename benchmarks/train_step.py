"""Measure a training step against plain fine-tuning of the same network in the same precision and mode.

    python -m benchmarks.train_step [--device cuda] [--backbone wrn28_4] [--domains 1,9,100] [--before SRC] [--json F]

Images are random. Our step is the whole step of method "union" in the order of the default strategy: crops, masks, both
constraints and all updates. Plain fine-tuning trains every weight of one network with SGD on the same crops. On a GPU
both are captured as CUDA graphs. `--before` names the folder src of an older version; then whole epochs of
`prunus train` on nine domains are timed in both versions, in turns. The command fails if a target is missed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
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
from prunus.data.schedule import schedule
from prunus.learning.arithmetic import arithmetic
from prunus.learning.captured import StepRunner
from prunus.learning.feed import DomainData, Feed, Inputs, StepJob, drawing, make_feeds
from prunus.learning.learner import Learner
from prunus.methods.table import adapt, choose_method
from prunus.timing.machine import describe_machine

IMAGES = 512  # of a domain
CLASSES = 10
PLAIN = "plain fine-tuning"
OVER_PLAIN = {"cuda": 1.25, "cpu": 1.30}  # with nine domains on a GPU, with any number on a CPU
OVER_ONE_DOMAIN = {10: 1.05, 100: 1.40}  # on a GPU
FASTER_THAN_BEFORE = 3.5  # on a GPU


def make_data(backbone: Backbone, count: int) -> list[DomainData]:
    rng = np.random.default_rng(0)
    side = backbone.preprocess.resize
    images = rng.integers(0, 256, (IMAGES, 3, side, side), dtype=np.uint8)
    labels = rng.integers(0, CLASSES, IMAGES)
    return [DomainData(f"d{i}", backbone.preprocess, True, ImageSet(images, labels), None) for i in range(count)]


def make_recipe(backbone: Backbone, domains: int, batch: int) -> Recipe:
    return Recipe(
        preset="paper",
        backbone=BackboneChoice(name=backbone.name),
        domains=tuple(DomainChoice(name=f"d{i}", path=f"d{i}") for i in range(domains)),
        sharing=Sharing(loss="union"),
        training=Training(batch_size=batch),
    )


def ours(backbone: Backbone, device: torch.device, domains: int, batch: int) -> Callable[[], None]:
    """Return our step, warmed up: every domain has run, and is captured on a GPU."""
    return recipe_step(backbone, device, make_recipe(backbone, domains, batch))


def recipe_step(backbone: Backbone, device: torch.device, recipe: Recipe) -> Callable[[], None]:
    """Return the step of a recipe on random images, warmed up."""
    names, batch = [choice.name for choice in recipe.domains], recipe.training.batch_size
    classes = dict.fromkeys(names, tuple(map(str, range(CLASSES))))
    net = adapt(backbone, classes, choose_method(recipe).name).to(device)
    learner = Learner(net, recipe)
    feeds = make_feeds(make_data(backbone, len(names)), device, recipe)
    runner = StepRunner(learner, feeds)
    steps = drawn_steps(feeds, batch, device)

    def step() -> None:
        domain, inputs = next(steps)
        runner.run([(domain, len(inputs[0]))], [inputs], 1.0)

    for _ in range(max(3, len(names) * IMAGES // batch) if device.type == "cuda" else 2):
        step()
    return step


def drawn_steps(feeds: list[Feed], batch: int, device: torch.device) -> Iterator[tuple[int, Inputs]]:
    """Draw the steps of the default strategy, an epoch of every domain, without end."""
    draw = drawing(feeds)
    epochs = (schedule("round_robin", [IMAGES] * len(feeds), batch, 1, seed) for seed in itertools.count())
    for number, step in enumerate(itertools.chain.from_iterable(epochs)):
        ((domain, indices),) = step.parts
        (inputs,) = draw(StepJob(0, number, ((domain, indices),)))
        yield domain, tuple(tensor.pin_memory() for tensor in inputs) if device.type == "cuda" else inputs


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
    feeds = make_feeds(make_data(backbone, 1), device, make_recipe(backbone, 1, batch))
    steps = (inputs for _, inputs in drawn_steps(feeds, batch, device))
    static = tuple(tensor.to(device) for tensor in next(steps))

    def receive() -> None:
        for buffer, tensor in zip(static, next(steps), strict=True):
            buffer.copy_(tensor, non_blocking=True)

    def learn() -> None:
        prepared = feeds[0].batch(static)
        sgd.zero_grad(set_to_none=True)
        images = prepared.images.contiguous(memory_format=torch.channels_last) if on_gpu else prepared.images
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu, cache_enabled=False):
            logits = network(images)
        F.cross_entropy(logits.float(), prepared.labels).backward()  # type: ignore[no-untyped-call]
        sgd.step()

    for _ in range(3):
        receive()
        learn()
    graph = None
    if on_gpu:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            learn()
    kept_alive = (network, sgd)  # a graph does not own the memory that it reads

    def step() -> None:
        assert kept_alive
        receive()
        if graph:
            graph.replay()
        else:
            learn()

    return step


def milliseconds(steps: dict[str, Callable[[], None]], device: torch.device, rounds: int) -> dict[str, float]:
    """Time blocks of steps in turn and return the median of a step."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    block = 80 if device.type == "cuda" else 3
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


def epoch_milliseconds(source: Path, device: str, backbone: str) -> float:
    """Time a step of whole epochs of `prunus train` with the version in a folder src, in a process of its own."""
    path = os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "benchmarks.epoch_time", "--device", device, "--backbone", backbone]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{source}: {done.stderr[-2000:]}")
    return float(done.stdout.splitlines()[-1])


def missed_targets(times: dict[str, float], device: str, before: dict[str, float]) -> list[str]:
    """Return what was promised and not kept."""
    ms = {int(name.split()[1]): taken for name, taken in times.items() if name != PLAIN}
    judged = {count: taken for count, taken in ms.items() if device == "cpu" or count == 9}
    missed = [
        f"{count} domains: {taken / times[PLAIN]:.3f}x plain fine-tuning, at most {OVER_PLAIN[device]} was promised"
        for count, taken in judged.items()
        if taken > OVER_PLAIN[device] * times[PLAIN]
    ]
    if device == "cuda" and 1 in ms:
        missed += [
            f"{count} domains: {ms[count] / ms[1]:.3f}x one domain, at most {limit} was promised"
            for count, limit in OVER_ONE_DOMAIN.items()
            if count in ms and ms[count] > limit * ms[1]
        ]
    if before and device == "cuda" and before["before"] < FASTER_THAN_BEFORE * before["now"]:
        missed.append(f"{before['before'] / before['now']:.2f}x faster than before, {FASTER_THAN_BEFORE} was promised")
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--backbone")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--domains", default="1,9,10,100")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    name = arguments.backbone or ("wrn28_4" if device.type == "cuda" else "wrn14_2")
    backbone = load_backbone(BackboneChoice(name=name, weights="random"))
    with arithmetic(Training(), device):
        steps = {PLAIN: plain(backbone, device, arguments.batch)}
        for count in map(int, arguments.domains.split(",")):
            steps[f"ours, {count} domains"] = ours(backbone, device, count, arguments.batch)
        times = milliseconds(steps, device, arguments.rounds)
    before: dict[str, float] = {}
    if arguments.before:
        sources = {"before": arguments.before, "now": Path(__file__).parents[1] / "src"}
        turns = [{key: epoch_milliseconds(src, device.type, name) for key, src in sources.items()} for _ in range(2)]
        before = {key: min(turn[key] for turn in turns) for key in sources}
    processor = torch.cuda.get_device_name() if device.type == "cuda" else describe_machine()
    table = Table(title=f"{name}, batch {arguments.batch}, {processor}, torch {torch.__version__}")
    for column in ("step", "ms", "over plain"):
        table.add_column(column, justify="right")
    for row, taken in times.items():
        table.add_row(row, f"{taken:.3f}", f"{taken / times[PLAIN]:.3f}")
    for version, taken in before.items():
        table.add_row(f"prunus train, 9 domains, {version}", f"{taken:.3f}", "")
    Console().print(table)
    if arguments.json:
        content = {"machine": processor, "torch": torch.__version__, "backbone": name, "batch": arguments.batch}
        arguments.json.write_text(json.dumps(content | {"ms": times, "prunus_train_ms": before}, indent=2) + "\n")
    if missed := missed_targets(times, device.type, before):
        raise SystemExit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
