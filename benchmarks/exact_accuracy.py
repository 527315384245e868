"""Compare the method exact at three budgets with networks fine-tuned for each domain, and with BA² and the union loss.

    python -m benchmarks.exact_accuracy DATA [--seeds 0,1,2] [--rows finetune,exact-0.25] [--runs DIR] [--json FILE]

DATA holds one folder or zip file per domain. All rows have the same steps and augmentation. They are trained on the
training and validation images and measured on the test images; their settings were chosen on validation images. The
rows `taught-*` learn from the row `finetune` of the same seed; their time does not include it. Rows that are
already in FILE are not trained again. The command fails if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import prunus
from prunus.timing.machine import describe_machine
from prunus.training.run import train_or_continue

COMMON = {"batch_size": 64, "weight_decay": 5e-4, "schedule": "cosine", "label_smoothing": 0.1, "strategy": "shuffled"}
EXACT = {"lr": 0.01, "weight_lr": 0.04, "switch_lr": 1e-4}
MASKS = {"lr": 0.01, "switch_lr": 2e-4, "dual_rate": 0.5}
# row -> method, budget, settings, taught
ROWS: dict[str, tuple[str, float, dict[str, float], bool]] = {
    "finetune": ("finetune", 1.0, {"lr": 0.03, "weight_lr": 0.03}, False),
    "ba2-0.25": ("ba2", 0.25, MASKS, False),
    "union-0.25": ("union", 0.25, MASKS, False),
    "exact-0.25": ("exact", 0.25, EXACT, False),
    "taught-0.25": ("exact", 0.25, EXACT, True),
    "taught-0.125": ("exact", 0.125, EXACT, True),
    "taught-0.0625": ("exact", 0.0625, EXACT, True),
}
TEACHER = "finetune"
# row, the row it is compared with, and the least difference of the means in points
TARGETS = (
    ("taught-0.25", "finetune", -0.3),
    ("taught-0.125", "finetune", -1.8),
    ("taught-0.125", "ba2-0.25", 0.0),
    ("taught-0.0625", "ba2-0.25", -2.5),
)
Result = dict[str, object]


def train(row: str, seed: int, data: Path, runs: Path, arguments: argparse.Namespace) -> Result:
    """Train and measure one row with one seed."""
    method, budget, settings, is_taught = ROWS[row]
    domains = sorted(path for path in data.iterdir() if path.suffix == ".zip" or path.is_dir())
    training = COMMON | settings | {"epochs": arguments.epochs, "splits": arguments.splits}
    content: dict[str, object] = {
        "backbone": arguments.backbone,
        "domains": [str(path) for path in domains],
        "method": method,
        "budget": budget,
        "seed": seed,
        "training": training,
    }
    if is_taught:
        content["teacher"] = str(runs / f"{TEACHER}-seed{seed}")
    began = time.monotonic()
    run = runs / f"{row}-seed{seed}"
    train_or_continue(prunus.parse_recipe(content), run, device=arguments.device)
    seconds = time.monotonic() - began
    measured = prunus.evaluate(run, split=arguments.split, device=arguments.device)
    return {
        "row": row,
        "seed": seed,
        "seconds": round(seconds, 1),
        "mean_accuracy": measured.mean_accuracy,
        "accuracies": measured.accuracies,
        "union": measured.union,
        "macs_ratio": measured.macs_ratio,
        "params_ratio": measured.params_ratio,
        "model_bytes": measured.model_bytes,
        "training": training,
    }


def missed(results: Mapping[tuple[str, int], Result]) -> list[str]:
    """List the targets that the mean over the common seeds misses."""
    sentences = []
    for row, other, least in TARGETS:
        seeds = [seed for name, seed in results if name == row and (other, seed) in results]
        if not seeds:
            continue
        gaps = [100 * (_accuracy(results[row, seed]) - _accuracy(results[other, seed])) for seed in seeds]
        if statistics.mean(gaps) < least:
            sentences.append(f"{row} is {statistics.mean(gaps):+.2f} points from {other}, allowed are {least:+.1f}")
    return sentences


def show(results: Mapping[tuple[str, int], Result], title: str) -> None:
    """Print the mean over the seeds of every row."""
    table = Table(title=title)
    for column in ("row", "mean accuracy", "seeds", "union", "MACs", "params", "seconds"):
        table.add_column(column, justify="left" if column == "row" else "right")
    for row in ROWS:
        found = [result for (name, _), result in results.items() if name == row]
        if not found:
            continue
        accuracies = [100 * _accuracy(result) for result in found]
        means = [statistics.mean(float(str(result[key])) for result in found) for key in ("union", "macs_ratio")]
        params = statistics.mean(float(str(result["params_ratio"])) for result in found)
        seconds = statistics.mean(float(str(result["seconds"])) for result in found)
        each = ", ".join(f"{accuracy:.1f}" for accuracy in accuracies)
        mean = f"{statistics.mean(accuracies):.2f}"
        table.add_row(row, mean, each, f"{means[0]:.4f}", f"{means[1]:.3f}", f"{params:.3f}", f"{seconds:.0f}")
    Console(width=120).print(table)


def _accuracy(result: Result) -> float:
    return float(str(result["mean_accuracy"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--backbone", default="wrn28_4")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--splits", default="train+validation")
    parser.add_argument("--split", default="test")
    parser.add_argument("--runs", type=Path, default=Path("runs/exact_accuracy"))
    parser.add_argument("--json", type=Path, default=Path("runs/exact_accuracy.json"))
    arguments = parser.parse_args()
    machine = torch.cuda.get_device_name() if arguments.device == "cuda" else describe_machine()
    saved = json.loads(arguments.json.read_text())["results"] if arguments.json.exists() else []
    results: dict[tuple[str, int], Result] = {(str(row["row"]), int(row["seed"])): row for row in saved}
    for seed in map(int, arguments.seeds.split(",")):
        for row in arguments.rows.split(","):
            if (row, seed) in results:
                continue
            result = results[row, seed] = train(row, seed, arguments.data, arguments.runs, arguments)
            print(f"{row} seed {seed}: {100 * _accuracy(result):.2f} % in {result['seconds']} s", flush=True)
            content = {"machine": machine, "torch": torch.__version__, "backbone": arguments.backbone}
            content |= {"epochs": arguments.epochs, "split": arguments.split, "results": list(results.values())}
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    show(results, f"{arguments.backbone}, {arguments.epochs} epochs, {machine}")
    if sentences := missed(results):
        raise SystemExit("missed: " + "; ".join(sentences))


if __name__ == "__main__":
    main()
