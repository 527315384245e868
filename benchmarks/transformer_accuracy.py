"""Train DeiT-Tiny on the demo domains with 25 % of its kernels, beside a network fine-tuned for each domain.

    python -m benchmarks.transformer_accuracy [--epochs 3] [--batch-size 32] [--size 96] [--device auto]
        [--only METHOD] [--measure-only] [--runs DIR] [--json FILE]

`--device` is where the networks are trained and measured: auto, cpu or cuda. With a GPU, use many epochs: on two cores
of a CPU an epoch takes minutes, and a few epochs from random weights say little. A run that was stopped continues with
the same command, and finished ones are only measured again, which takes about a minute; with `--measure-only` it is an
error if they are not there. The comparison of logits is always made on the CPU.

Weights pretrained elsewhere are not used: all networks begin with the same random weights and have the same steps, so
the accuracies compare the rows with each other and with chance, and nothing else. The model is pruned, exported to
ONNX and run in a process that cannot import torch, on test images. The command fails if all domains together do not
use exactly 25 % of the kernels, or if logits differ from torch's by more than 1e-4 of the largest.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import prunus
from prunus.arrays import Floats
from prunus.data.layouts import open_domain
from prunus.data.loading import load_images
from prunus.images import crop_windows
from prunus.measure.budget import whole_share
from prunus.methods.costs import dense_costs
from prunus.timing.machine import describe_machine
from prunus.training.planning import plan_either
from prunus.training.run import TrainedRun, open_run, train_or_continue

DOMAINS = ("characters", "clothing", "fashion", "fruits", "signs")
BUDGET = 0.25
TOLERANCE = 1e-4  # of the largest logit
IMAGES = 16  # of a domain, whose logits are compared
COMMON = {"splits": "train+validation", "schedule": "cosine", "strategy": "shuffled"}
ROWS: dict[str, dict[str, float]] = {"exact": {"lr": 0.03}, "finetune": {"lr": 0.03, "weight_lr": 0.03}}
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import numpy as np
from prunus.runtime.predictor import Predictor
model, images, out = sys.argv[1:]
predictor = Predictor(model)
with np.load(images) as arrays:
    np.savez(out, **{name: predictor.logits(arrays[name], domain=name) for name in arrays.files})
print(predictor.engine)
"""


def train(method: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train and measure one row."""
    content: dict[str, object] = {
        "backbone": {"name": arguments.backbone, "weights": "random", "size": arguments.size},
        "domains": [f"demo:{name}" for name in DOMAINS],
        "method": method,
        "budget": BUDGET,
        "training": COMMON | ROWS[method] | {"epochs": arguments.epochs, "batch_size": arguments.batch_size},
    }
    run = arguments.runs / method
    recipe = prunus.parse_recipe(content)
    if not arguments.measure_only:
        train_or_continue(recipe, run, device=arguments.device)
    elif plan_either(recipe, run) is not None:
        raise SystemExit(f"{run} holds no finished run with these arguments; train it first, without --measure-only")
    measured = prunus.evaluate(run, device=arguments.device)
    return {
        "method": method,
        "steps": measured.steps[1],
        "mean_accuracy": measured.mean_accuracy,
        "accuracies": measured.accuracies,
        "union": measured.union,
        "macs_ratio": measured.macs_ratio,
        "stored_bytes": measured.stored_bytes,
        "model_bytes": measured.model_bytes,
        "training": content["training"],
    }


def test_images(run: TrainedRun) -> dict[str, Floats]:
    """Return some test images of every domain, as the network reads them."""
    found = {}
    for choice in run.recipe.domains:
        preprocess = run.preprocess[choice.name]
        images = load_images(open_domain(choice, run.recipe.training.validation_share), "test", preprocess).images
        (window,) = crop_windows(preprocess.resize, preprocess.size, 1)
        found[choice.name] = preprocess.normalize(preprocess.crop(images[:IMAGES], *window))
    return found


@torch.no_grad()
def compare(run: TrainedRun, model: Path, folder: Path) -> dict[str, Any]:
    """Return the largest differences from torch's logits: of the file without torch, and of ONNX Runtime."""
    import onnxruntime  # noqa: PLC0415  # optional package

    images = test_images(run)
    theirs = {name: run.net(torch.from_numpy(array), name).numpy() for name, array in images.items()}
    given, answers = folder / "images.npz", folder / "logits.npz"
    np.savez(given, **images)  # type: ignore[arg-type]  # arrays by name
    command = [sys.executable, "-c", WITHOUT_TORCH, str(model), str(given), str(answers)]
    engine = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    with np.load(answers) as arrays:
        alone = {name: arrays[name] for name in arrays.files}
    prunus.export(model, folder / "onnx")
    exported = {}
    for name, array in images.items():
        session = onnxruntime.InferenceSession(folder / "onnx" / f"{name}.onnx", providers=["CPUExecutionProvider"])
        exported[name] = session.run(None, {session.get_inputs()[0].name: array})[0]
    return {
        "engine": engine,
        "images": sum(map(len, images.values())),
        "without_torch": max(_difference(alone[name], theirs[name]) for name in images),
        "onnx": max(_difference(exported[name], theirs[name]) for name in images),
    }


def _difference(ours: Floats, theirs: Floats) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def chance(run: TrainedRun) -> float:
    """Return the mean accuracy of guessing."""
    return float(np.mean([1 / len(classes) for classes in run.net.classes.values()]))


def command_of(arguments: argparse.Namespace) -> str:
    """Return the command that trains and measures the same, with every argument that decides the result."""
    named = {name: getattr(arguments, name) for name in ("backbone", "size", "epochs", "batch_size", "device")}
    given = [f"--{name.replace('_', '-')} {value}" for name, value in named.items()]
    return " ".join(["python -m benchmarks.transformer_accuracy", *given])


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the arguments of the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="timm/deit_tiny_patch16_224")
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--epochs", type=int, default=3, help="of every domain")
    parser.add_argument(
        "--batch-size", type=int, default=32, help="images of a step: fewer make more steps of an epoch"
    )
    parser.add_argument("--device", default="auto", help="where to train: auto, cpu or cuda")
    parser.add_argument("--only", choices=ROWS, help="train this row and stop; the other rows are trained later")
    parser.add_argument("--runs", type=Path, default=Path("runs/transformer_accuracy"))
    parser.add_argument("--json", type=Path, default=Path("runs/transformer_accuracy.json"))
    parser.add_argument("--measure-only", action="store_true", help="train nothing: measure finished runs again")
    return parser.parse_args(given)


def main() -> None:
    arguments = arguments_of()
    rows = []
    for method in [arguments.only] if arguments.only else ROWS:
        row = train(method, arguments)
        rows.append(row)
        print(f"{method}: {100 * row['mean_accuracy']:.2f} %", flush=True)
    if arguments.only:
        return
    run = open_run(arguments.runs / "exact", "cpu")
    dense = dense_costs(run.backbone)
    limit = whole_share(BUDGET, dense.num_kernels())
    used = round(rows[0]["union"] * dense.num_kernels())
    with tempfile.TemporaryDirectory() as folder_name:
        model = arguments.runs / "model.prunus"
        prunus.prune(arguments.runs / "exact", model)
        differences = compare(run, model, Path(folder_name))
    content = {
        "command": command_of(arguments),
        "machine": describe_machine(),
        "device": arguments.device,
        "backbone": arguments.backbone,
        "size": arguments.size,
        "epochs": arguments.epochs,
        "batch_size": arguments.batch_size,
        "chance": chance(run),
        "kernels": {"used": used, "limit": limit, "all": dense.num_kernels()},
        "macs": {"dense": dense.dense_macs(), "products": dense.product_macs},
        "model_bytes": model.stat().st_size,
        "dense_bytes": run.net.dense_bytes(),
        "largest_difference": differences,
        "rows": rows,
    }
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    print(f"{used:,} of {limit:,} kernels; differences from torch: {differences}")
    if used != limit or max(differences["without_torch"], differences["onnx"]) > TOLERANCE:
        raise SystemExit("missed: exactly 25 % of the kernels, and logits within 1e-4 of torch's")


if __name__ == "__main__":
    main()
