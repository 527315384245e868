"""Train with budgets in real units, one attempt each, and read from the model files whether they are kept.

    python -m benchmarks.budget_units [--device cuda] [--epochs 15] [--runs DIR] [--json FILE]

Three bundled domains, wrn14_2: "1 MB and 20 M MACs", "1 MB and 6 M MACs", "300 kB". Then all five at 35 % of the
kernels with whole filters, beside single kernels at the same MACs in every domain. The command fails if a budget is
exceeded, if less than 95 % of every limit is used, or if filters are more than 5 points less accurate than kernels.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import prunus
from prunus.bundle.file import read_bundle
from prunus.timing.machine import describe_machine
from prunus.training.run import train_or_continue

THREE = ("characters", "fruits", "signs")
FIVE = ("characters", "clothing", "fashion", "fruits", "signs")
BUDGETS: dict[str, dict[str, object]] = {
    "1 MB and 20 M MACs": {"bytes": "1 MB", "macs": "20 M"},
    "1 MB and 6 M MACs": {"bytes": "1 MB", "macs": "6 M"},
    "300 kB": {"bytes": "300 kB"},
}
TRAINING: dict[str, object] = {"batch_size": 32, "lr": 0.02, "weight_lr": 0.04, "switch_lr": 2e-4, "weight_decay": 5e-4}
TRAINING |= {"schedule": "cosine", "label_smoothing": 0.1, "strategy": "shuffled", "splits": "train+validation"}
LEAST_USED = 0.95
MOST_LOST = 0.05


def attempt(
    name: str, domains: tuple[str, ...], budget: object, granularity: str, options: argparse.Namespace
) -> dict[str, object]:
    """Train and prune once, and read the costs from the model file."""
    content = {
        "backbone": "wrn14_2",
        "domains": [f"demo:{domain}" for domain in domains],
        "method": {"name": "exact", "granularity": granularity},
        "budget": budget,
        "training": TRAINING | {"epochs": options.epochs},
    }
    run = options.runs / name.replace(" ", "_")
    train_or_continue(prunus.parse_recipe(content), run, device=options.device)
    path = prunus.prune(run, run / "model.prunus")
    accuracy = prunus.evaluate(run, device=options.device).mean_accuracy
    return {"name": name, "budget": budget, "accuracy": accuracy, **read_costs(path)}


def read_costs(path: Path) -> dict[str, object]:
    """Count bytes, kernels and MACs in a model file."""
    bundle = read_bundle(path)
    convs = bundle.manifest.convs
    macs = {
        domain: sum(
            int(bundle.mask(domain, layer).sum()) * conv.kernel[0] * conv.kernel[1] * conv.positions
            for layer, conv in convs.items()
        )
        for domain in bundle.domains
    }
    kept = sum(int(bundle.union(layer).sum()) for layer in convs)
    return {"bytes": path.stat().st_size, "macs": macs, "union": kept / sum(c.dense_kernels for c in convs.values())}


def shares(row: dict[str, object]) -> list[float]:
    """Return the used share of every limit of a budget in bytes and MACs."""
    budget = prunus.parse_recipe({"backbone": "wrn14_2", "domains": ["a"], "budget": row["budget"]}).budget
    macs = row["macs"]
    assert isinstance(macs, dict)
    used = [int(str(row["bytes"])) / budget.bytes] if budget.bytes else []
    return used + ([max(macs.values()) / budget.macs] if isinstance(budget.macs, int) else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--runs", type=Path, default=Path("runs/budget_units"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [attempt(name, THREE, budget, "kernel", options) for name, budget in BUDGETS.items()]
    filters = attempt("filters", FIVE, 0.35, "filter", options)
    kernels = attempt("kernels at equal MACs", FIVE, {"macs": filters["macs"]}, "kernel", options)
    table = Table(title="budgets in real units, as read from the model files")
    for column in ("budget", "bytes", "MACs", "union", "used", "accuracy"):
        table.add_column(column, justify="left" if column == "budget" else "right")
    for row in (*rows, filters, kernels):
        macs = row["macs"]
        assert isinstance(macs, dict)
        used = " ".join(f"{share:.1%}" for share in shares(row))
        cells = (f"{row['bytes']:,}", f"{max(macs.values()):,}", f"{row['union']:.4f}", used, f"{row['accuracy']:.1%}")
        table.add_row(str(row["name"]), *cells)
    Console(width=120).print(table)
    if options.json:
        machine = torch.cuda.get_device_name() if torch.cuda.is_available() else describe_machine()
        content = {"machine": machine, "torch": torch.__version__, "epochs": options.epochs}
        options.json.write_text(json.dumps(content | {"rows": [*rows, filters, kernels]}, indent=1) + "\n")
    wrong = [str(row["name"]) for row in rows if max(shares(row)) > 1 or max(shares(row)) < LEAST_USED]
    if wrong:
        raise SystemExit(f"missed: {', '.join(wrong)}")
    lost = float(str(kernels["accuracy"])) - float(str(filters["accuracy"]))
    if lost > MOST_LOST or float(str(filters["union"])) > 0.35:
        raise SystemExit(f"missed: filters are {100 * lost:.1f} points less accurate than kernels at equal MACs")


if __name__ == "__main__":
    main()
