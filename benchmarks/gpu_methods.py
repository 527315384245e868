"""Train every method on a GPU: is its step captured, is a resumed run the same bit for bit, and does it learn as well?

    python -m benchmarks.gpu_methods [--methods union,da3] [--json FILE]

Each method trains two demo domains for three epochs with training.deterministic: once straight, once interrupted at
step 13 and resumed, and once in plain float32 without CUDA graphs. The command fails if a method fails, or if a resumed
run differs. Methods that have no deterministic version on a GPU say so, and are trained without it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
from pathlib import Path
from unittest.mock import patch

import torch
from rich.console import Console
from rich.table import Table

import prunus
from prunus.checkpoints.checkpoint import read_checkpoint
from prunus.errors import TrainingError, TrainingInterrupted
from prunus.learning import captured
from prunus.methods.table import METHODS
from prunus.run_folder import EpochReport, RunFolder
from prunus.training.observers import Observer

DOMAINS = ["demo:fruits", "demo:signs"]
STOP_AT = 13
COLUMNS = ("method", "step", "resumed", "train accuracy", "float32")


class Runner(captured.StepRunner):
    """A runner that the benchmark can ask whether it captured."""

    last: captured.StepRunner

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]  # the arguments of its parent
        Runner.last = self


class Watch(Observer):
    """Stops a run at a step and keeps its last report."""

    def __init__(self, stop_at: int = 0) -> None:
        self._stop_at = stop_at
        self.accuracy = 0.0

    def stepped(self, step: int, epoch: int) -> None:
        if step == self._stop_at:
            os.kill(os.getpid(), signal.SIGINT)

    def epoch_ended(self, report: EpochReport) -> None:
        accuracies = [domain.train_accuracy for domain in report.domains.values()]
        self.accuracy = sum(accuracies) / len(accuracies)


def recipe_of(method: str, **training: object) -> prunus.Recipe:
    settings = {"epochs": 3, "lr": 0.02, "weight_lr": 0.01, "deterministic": True} | training
    return prunus.parse_recipe(
        {"preset": "paper", "backbone": "wrn14_2", "domains": DOMAINS, "method": method, "training": settings}
    )


def measure(method: str, folder: Path) -> dict[str, str]:
    """Train a method four times and describe what happened."""
    watch = Watch()
    try:
        prunus.train(recipe_of(method), folder / "straight", [watch], "cuda")
    except TrainingError as error:
        if "deterministic" not in str(error):
            raise
        prunus.train(recipe_of(method, deterministic=False), folder / "other", [watch], "cuda")
        resumed = "not deterministic"
    else:
        try:
            prunus.train(recipe_of(method), folder / "stopped", [Watch(STOP_AT)], "cuda")
        except TrainingInterrupted:
            prunus.resume(folder / "stopped", device="cuda")
        ours, theirs = (read_checkpoint(RunFolder(folder / n).checkpoint).tensors for n in ("straight", "stopped"))
        resumed = "same" if all(torch.equal(ours[name], theirs[name]) for name in ours) else "DIFFERENT"
    step = "captured" if Runner.last.captures else "not captured"
    plain = Watch()
    slow = {"precision": "float32", "cuda_graphs": False, "deterministic": False}
    prunus.train(recipe_of(method, **slow), folder / "plain", [plain], "cuda")
    accuracies = (f"{100 * watch.accuracy:.1f}", f"{100 * plain.accuracy:.1f}")
    return dict(zip(COLUMNS, (method, step, resumed, *accuracies), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, patch("prunus.training.loop.StepRunner", Runner):
        for method in arguments.methods.split(","):
            rows.append(measure(method, Path(folder) / method))
            print(rows[-1], flush=True)
    table = Table(title=f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for column in COLUMNS:
        table.add_column(column)
    for row in rows:
        table.add_row(*row.values())
    Console().print(table)
    if arguments.json:
        content = {"machine": torch.cuda.get_device_name(), "torch": torch.__version__, "methods": rows}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")
    if lost := [row["method"] for row in rows if row["resumed"] == "DIFFERENT"]:
        raise SystemExit(f"missed: a resumed run differs: {', '.join(lost)}")


if __name__ == "__main__":
    main()
