"""Run folders written by hand, as a training run and its measurements leave them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prunus.bundle.file import write_bundle
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.by_class.confusion import count_classes, surest_mistakes
from prunus.measure.by_class.pictures import small_picture
from prunus.run_folder import RunFolder
from tests.makers.graph_bundles import random_bundle, varied_graph

ACCURACIES = {"birds": 0.9, "flowers": 0.7}
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def results(
    method: str = "union",
    budget: float | None = 0.5,
    accuracies: Mapping[str, float] = ACCURACIES,
    costs: tuple[float, float] = (0.5, 0.4),
    **more: object,
) -> dict[str, Any]:
    """Return what `prunus evaluate --json` prints; costs are the ratios of parameters and of MACs."""
    usage = 1.0 if budget is None else 0.8 * budget
    domain = {"images": 10, "skipped": 0, "crops": 1, "usage": usage, "macs": 10, "macs_ratio": costs[1]}
    content: dict[str, Any] = {
        "method": method,
        "options": {},
        "backbone": "wrn14_2",
        "budget": budget,
        "sharing": None,
        "seed": 0,
        "split": "test",
        "steps": [8, 8],
        "domains": {name: domain | {"accuracy": accuracy} for name, accuracy in accuracies.items()},
        "union": usage,
        "intersection": usage,
        "sparsity": 0.0,
        "params_ratio": costs[0],
        "macs_ratio": costs[1],
        "dense_macs": 25_000_000,
        "model_bytes": 900_000,
        "stored_bytes": 880_000,
        "dense_bytes": 2_700_000,
        "scores": None,
    }
    return content | {"mean_accuracy": sum(accuracies.values()) / len(accuracies)} | more


def by_class(classes: Sequence[str], images: int = 30, side: int = 32) -> dict[str, Any]:
    """Return results by class, with noise as pictures; about a third of the images are classified wrongly."""
    random = np.random.default_rng(images)
    truths = np.arange(images) % len(classes)
    predicted = np.where(random.random(images) < 0.3, (truths + 1) % len(classes), truths)
    pictures = random.integers(0, 256, (images, 3, side, side), np.uint8)
    mistakes = surest_mistakes(
        classes,
        truths,
        predicted,
        random.random(images).astype(np.float32),
        lambda image: (f"test/{image}.jpg", small_picture(pictures[image])),
    )
    found = count_classes(classes, truths, predicted).model_copy(update={"mistakes": mistakes})
    return found.model_dump(mode="json")


def write_run(folder: Path, content: Mapping[str, Any] | None = None) -> Path:
    """Write a measured run: recipe, results, and a log whose last line is cut short."""
    content = content or results()
    folder.mkdir(parents=True)
    paths = [{"name": name, "path": f"/home/somebody/{name}"} for name in content["domains"]]
    RunFolder(folder).recipe.write_text(json.dumps({"domains": paths, "training": {"epochs": 3}, "root": None}))
    RunFolder(folder).results.write_text(json.dumps(content))
    epochs = []
    for epoch in range(3):
        progress = {"loss": 1.0, "train_accuracy": 0.3 * epoch, "validation_accuracy": None, "usage": 1 - 0.2 * epoch}
        domains = dict.fromkeys(content["domains"], progress)
        epochs.append({"epoch": epoch, "step": epoch, "domains": domains, "union": 0.9, "seconds": 1.0})
    RunFolder(folder).log.write_text("".join(json.dumps(epoch) + "\n" for epoch in epochs) + '{"epoch": 3, "st')
    return folder


def write_speeds(folder: Path) -> None:
    """Write what `prunus bench --json` prints."""
    speeds = [
        {"engine": engine, "threads": threads, "domain": domain, "latency": {"median_ms": ms, "p95_ms": 2 * ms}}
        | {"images_per_second": 1000 / ms}
        for threads in (1, 2)
        for engine, domain, ms in (("Prunus", "birds", 0.25), ("Prunus", "flowers", 0.35), ("PyTorch dense", None, 2.0))
    ]
    content = {"model": "model.prunus", "machine": "a small machine", "batch": 16, "versions": {"numpy": "2.0"}}
    content["prunus_engine"] = "numpy"
    RunFolder(folder).bench.write_text(json.dumps(content | {"speeds": speeds, "gains": [], "missing": {}}))


def write_measured_model(folder: Path) -> Path:
    """Write a measured run with a matching model file and timings."""
    bundle = random_bundle(varied_graph(0), 12, tuple(ACCURACIES))
    costs = bundle_costs(bundle)
    content = results()
    for name in ACCURACIES:
        content["domains"][name]["usage"] = costs.usage(name)
        content["domains"][name]["by_class"] = by_class(("owl", "wren", "kite"))
    write_run(folder, content)
    write_bundle(RunFolder(folder).model, bundle)
    write_speeds(folder)
    return folder
