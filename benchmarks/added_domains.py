"""Leave each domain out of a model, add it later, and compare its accuracy with that of joint training.

    python -m benchmarks.added_domains DATA [--seeds 0,1,2] [--domains cub,dtd] [--runs DIR] [--json FILE] [--seconds N]

DATA holds one folder or zip file per domain. For every seed, all domains are trained together at a union of 0.25. Then
each one is left out in turn: a model of the others is trained and pruned, and the domain is added to its file, once
inside its kernels and once with 5 % of the backbone's kernels more. All are trained on the training and validation
images and measured on the test images. Rows that are already in FILE are not trained again; with an empty folder as
DATA, the command only shows them. It fails if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import prunus
from prunus.timing.machine import describe_machine
from prunus.training.run import train_or_continue

BUDGET = 0.25
TRAINING = {"batch_size": 64, "lr": 0.01, "weight_lr": 0.04, "switch_lr": 1e-4, "splits": "train+validation"}
ROWS: dict[str, str | None] = {"inside": None, "grown": "5%"}  # how many kernels may be added
# row -> the largest loss against joint training, in points: on average, and of a domain
TARGETS: dict[str, tuple[float, float]] = {"inside": (2.0, 4.0), "grown": (1.0, float("inf"))}
Results = dict[tuple[str, str, int], float]  # row, domain, seed -> accuracy


def train_together(paths: Mapping[str, Path], run: Path, seed: int, arguments: argparse.Namespace) -> None:
    """Train some domains together."""
    content: dict[str, object] = {
        "backbone": arguments.backbone,
        "domains": [str(path) for path in paths.values()],
        "budget": BUDGET,
        "seed": seed,
        "training": TRAINING | {"epochs": arguments.epochs},
    }
    train_or_continue(prunus.parse_recipe(content), run, device=arguments.device)


def accuracy_of(model: Path, domain: str, arguments: argparse.Namespace) -> float:
    """Measure one domain of a model file on its test images; without the others, it answers exactly the same."""
    alone = model.with_name("alone.prunus")
    alone.write_bytes(model.read_bytes())
    for other in set(prunus.Predictor(model).domains) - {domain}:
        prunus.remove_domain(alone, other, alone)
    return prunus.evaluate(alone, data=arguments.data).accuracies[domain]


def added(base: Path, path: Path, row: str, seed: int, arguments: argparse.Namespace) -> float:
    """Add a domain to a model file and measure it; all rows have the same teacher."""
    out = base.with_name(f"{base.stem}-{row}.prunus")
    teacher = base.with_name(f"teacher-{path.stem}-{seed}")
    run = base.with_name(f"{base.stem}-{row}")
    prunus.add_domain(
        base,
        path,
        out,
        grow=ROWS[row],
        teacher=teacher if teacher.exists() else "finetune",
        settings=[f"seed={seed}", "training.splits=train+validation", "training.batch_size=64"],
        run=run,
        device=arguments.device,
        observers=[],
    )
    if not teacher.exists():
        (run / "teacher").rename(teacher)
    return accuracy_of(out, path.stem, arguments)


def show(results: Results, title: str) -> dict[str, list[float]]:
    """Print the mean accuracies of the seeds that have all rows; return what each row loses, by domain."""
    domains = sorted({domain for _, domain, _ in results})
    table = Table(title=title)
    for column in ("domain", "seeds", "joint", *ROWS, *(f"{row} - joint" for row in ROWS)):
        table.add_column(column, justify="left" if column == "domain" else "right")
    losses: dict[str, list[float]] = {row: [] for row in ROWS}
    for domain in domains:
        seeds = {seed for _, of, seed in results if of == domain}
        whole = [seed for seed in seeds if all((row, domain, seed) in results for row in ("joint", *ROWS))]
        if not whole:
            continue
        known = {row: 100 * statistics.mean(results[row, domain, seed] for seed in whole) for row in ("joint", *ROWS)}
        gaps = {row: known[row] - known["joint"] for row in ROWS}
        for row, gap in gaps.items():
            losses[row].append(-gap)
        cells = [f"{known[row]:.1f}" for row in ("joint", *ROWS)]
        table.add_row(domain, str(len(whole)), *cells, *(f"{gaps[row]:+.1f}" for row in ROWS))
    Console(width=110).print(table)
    return losses


@dataclass(frozen=True)
class Summary:
    """What additions gain or lose against joint training, in points.

    Args:
        gaps: domain -> gap by seed.
    """

    gaps: dict[str, dict[int, float]]

    @property
    def worst(self) -> tuple[float, str, int]:
        """Return the smallest gap of a single seed, with its domain and the seed."""
        return min((gap, domain, seed) for domain, found in self.gaps.items() for seed, gap in found.items())

    @property
    def mean(self) -> float:
        return statistics.fmean(statistics.fmean(found.values()) for found in self.gaps.values())

    @property
    def mean_without_gains(self) -> float:
        """Return the mean gap of the domains if those that gain counted as 0."""
        return statistics.fmean(min(0.0, statistics.fmean(found.values())) for found in self.gaps.values())

    @property
    def mean_of_seeds(self) -> dict[int, float]:
        seeds = sorted({seed for found in self.gaps.values() for seed in found})
        return {seed: statistics.fmean(found[seed] for found in self.gaps.values() if seed in found) for seed in seeds}

    def __str__(self) -> str:
        gap, domain, seed = self.worst
        seeds = ", ".join(f"{mean:+.2f}" for mean in self.mean_of_seeds.values())
        return (
            f"{self.mean:+.2f} points on average, by seed {seeds}, without gains {self.mean_without_gains:+.2f}; "
            f"the worst is {domain} with seed {seed}, {gap:+.2f}"
        )


def summary_of(results: Results, row: str) -> Summary | None:
    """Compare the additions of a row with joint training; None if none is measured."""
    gaps: dict[str, dict[int, float]] = {}
    for (of, domain, seed), accuracy in results.items():
        if of == row and ("joint", domain, seed) in results:
            gaps.setdefault(domain, {})[seed] = 100 * (accuracy - results["joint", domain, seed])
    return Summary(gaps) if gaps else None


def read(file: Path) -> Results:
    """Read the results that a file holds, if there is one."""
    saved = json.loads(file.read_text())["results"] if file.exists() else []
    return {(entry["row"], entry["domain"], entry["seed"]): entry["accuracy"] for entry in saved}


def write(file: Path, results: Results, machine: str, arguments: argparse.Namespace) -> None:
    """Write results, and how they were measured."""
    entries = [{"row": r, "domain": d, "seed": s, "accuracy": a} for (r, d, s), a in results.items()]
    command = shlex.join(["python", "-m", "benchmarks.added_domains", *sys.argv[1:]])
    content: dict[str, object] = {
        "command": command,
        "prunus": prunus.__version__,
        "torch": torch.__version__,
        "machine": machine,
    }
    content |= {"backbone": arguments.backbone, "epochs": arguments.epochs, "results": entries}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1) + "\n")


def missed(losses: Mapping[str, list[float]]) -> list[str]:
    """List the targets that are missed."""
    sentences = []
    for row, (average, worst) in TARGETS.items():
        if not losses[row]:
            continue
        if statistics.mean(losses[row]) > average:
            sentences.append(f"{row} loses {statistics.mean(losses[row]):.2f} points on average, allowed are {average}")
        if max(losses[row]) > worst:
            sentences.append(f"{row} loses {max(losses[row]):.2f} points in one domain, allowed are {worst}")
    return sentences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--backbone", default="wrn28_4")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--domains", default="", help="those to leave out (default: all)")
    parser.add_argument("--rows", default=",".join(ROWS), help="none: train only what domains are added to")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing new after so many")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--runs", type=Path, default=Path("runs/added_domains"))
    parser.add_argument("--json", type=Path, default=Path("runs/added_domains.json"))
    arguments = parser.parse_args()
    machine = torch.cuda.get_device_name() if arguments.device == "cuda" else describe_machine()
    results = read(arguments.json)

    def keep(row: str, domain: str, seed: int, accuracy: float) -> None:
        results[row, domain, seed] = accuracy
        write(arguments.json, results, machine, arguments)

    paths = {path.stem: path for path in sorted(arguments.data.iterdir()) if path.suffix == ".zip" or path.is_dir()}
    rows = arguments.rows.split(",") if arguments.rows else []
    deadline = time.monotonic() + arguments.seconds
    for seed in map(int, arguments.seeds.split(",")):
        if any(("joint", domain, seed) not in results for domain in paths):
            run = arguments.runs / f"joint-{seed}"
            train_together(paths, run, seed, arguments)
            for domain, accuracy in prunus.evaluate(run, device=arguments.device).accuracies.items():
                keep("joint", domain, seed, accuracy)
        for left_out in arguments.domains.split(",") if arguments.domains else paths:
            began = time.monotonic()
            base = arguments.runs / f"without-{left_out}-{seed}.prunus"
            missing = [row for row in rows if (row, left_out, seed) not in results]
            if (rows and not missing) or began > deadline:
                continue
            if not base.exists():
                run = base.with_suffix("")
                train_together({k: path for k, path in paths.items() if k != left_out}, run, seed, arguments)
                prunus.prune(run, base)
            for row in missing:
                keep(row, left_out, seed, added(base, paths[left_out], row, seed, arguments))
            found = {row: results[row, left_out, seed] for row in ("joint", *rows)}
            print(f"{left_out} seed {seed}: {found} in {time.monotonic() - began:.0f} s", flush=True)
    losses = show(results, f"{arguments.backbone}, {arguments.epochs} epochs, {machine}")
    for row in ROWS:
        print(f"{row}: {summary_of(results, row) or 'nothing measured'}")
    if sentences := missed(losses):
        raise SystemExit("missed: " + "; ".join(sentences))


if __name__ == "__main__":
    main()
