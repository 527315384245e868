"""Run folders as trainings leave them, written by hand: what the page reads, without a training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prunus.bundle.file import write_bundle
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
    """Give what `prunus evaluate --json` writes; costs are the ratios of parameters and of MACs."""
    usage = 1.0 if budget is None else 0.8 * budget
    domain = {"images": 10, "skipped": 0, "crops": 1, "usage": usage, "macs": 10, "macs_ratio": costs[1]}
    content: dict[str, Any] = {
        "method": method,
        "options": {},
        "backbone": "wrn14_2",
        "budget": budget,
        "sharing": None,
        "seed": 0,
    }
    content |= {"split": "test", "steps": [8, 8], "union": usage, "intersection": usage, "sparsity": 0.0}
    content |= {"params_ratio": costs[0], "macs_ratio": costs[1], "dense_macs": 25_000_000, "scores": None}
    content |= {"model_bytes": 900_000, "stored_bytes": 880_000, "dense_bytes": 2_700_000}
    content["domains"] = {name: domain | {"accuracy": accuracy} for name, accuracy in accuracies.items()}
    return content | {"mean_accuracy": sum(accuracies.values()) / len(accuracies)} | more


def write_run(folder: Path, content: Mapping[str, Any] | None = None) -> Path:
    """Write a run that was measured: recipe, log and results."""
    content = content or results()
    folder.mkdir(parents=True)
    paths = [{"name": name, "path": f"/home/somebody/{name}"} for name in content["domains"]]
    (folder / "recipe.json").write_text(json.dumps({"domains": paths, "training": {"epochs": 3}, "root": None}))
    (folder / "results.json").write_text(json.dumps(content))
    epochs = []
    for epoch in range(3):
        progress = {"loss": 1.0, "train_accuracy": 0.3 * epoch, "validation_accuracy": None, "usage": 1 - 0.2 * epoch}
        domains = dict.fromkeys(content["domains"], progress)
        epochs.append({"epoch": epoch, "step": epoch, "domains": domains, "union": 0.9, "seconds": 1.0})
    (folder / "log.jsonl").write_text("".join(json.dumps(epoch) + "\n" for epoch in epochs) + '{"epoch": 3, "st')
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
    (folder / "bench.json").write_text(json.dumps(content | {"speeds": speeds, "gains": [], "missing": {}}))


def write_measured_model(folder: Path) -> Path:
    """Write a run with a model file whose usage is what was measured, and with speeds."""
    bundle = random_bundle(varied_graph(0), 12, tuple(ACCURACIES))
    write_run(folder, results())
    write_bundle(folder / "model.prunus", bundle)
    total = sum(conv.dense_kernels for conv in bundle.manifest.convs.values())
    content = results()
    for place, name in enumerate(ACCURACIES):
        used = sum(int(mask[place].sum()) for mask in bundle.layer_masks().values())
        content["domains"][name]["usage"] = used / total
    (folder / "results.json").write_text(json.dumps(content))
    write_speeds(folder)
    return folder
