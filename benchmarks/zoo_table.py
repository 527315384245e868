"""Take networks of timm all the way: a training step, pruning, a model file, both engines and ONNX against torch.

    python -m benchmarks.zoo_table [NAME...] [--json FILE] [--page FILE] [--seconds 300] [--jobs 1] [--again]

Every network has random weights and small images, and is trained for one step with the method `exact` and a budget of
25 % of the kernels on two domains of noise. The logits of the model file and of the ONNX model must be those of the
trained network in torch, to within 1e-4 of the largest. Each network has a process of its own and a limit of processor
time. Rows that are already in FILE are not computed again, unless `--again` is given. The page gets the table between
its two markers. The command fails if fewer than 22 networks reach an equal file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

import prunus
from prunus.arrays import Floats
from prunus.budgets.counting import used_kernels
from prunus.bundle.file import read_bundle
from prunus.measure.budget import whole_share
from prunus.methods.costs import dense_costs
from prunus.runtime.numpy_engine import NumpyEngine
from prunus.runtime.predictor import Predictor
from prunus.timing.machine import describe_machine
from prunus.training.run import TrainedRun, open_run, start_run
from prunus.verbs.arguments import Own

# timm network -> its family and the size of its images
NETWORKS: dict[str, tuple[str, int]] = {
    "resnet18": ("ResNet", 64),
    "resnext26ts": ("ResNeXt", 64),
    "regnetx_002": ("RegNet", 64),
    "regnety_002": ("RegNet with SE", 64),
    "densenet121": ("DenseNet", 64),
    "inception_v3": ("Inception", 96),
    "mobilenetv1_100": ("MobileNet 1", 64),
    "mobilenetv2_050": ("MobileNet 2", 64),
    "mobilenetv3_small_050": ("MobileNet 3", 64),
    "mobilenetv4_conv_small_035": ("MobileNet 4", 64),
    "efficientnet_b0": ("EfficientNet", 64),
    "ghostnet_050": ("GhostNet", 64),
    "mnasnet_small": ("MNASNet", 64),
    "semnasnet_050": ("MNASNet with SE", 64),
    "convnext_atto": ("ConvNeXt", 64),
    "convnextv2_atto": ("ConvNeXt V2", 64),
    "eca_nfnet_l0": ("NFNet", 64),
    "nf_regnet_b1": ("NF-RegNet", 64),
    "resnetv2_50x1_bit": ("BiT", 64),
    "hrnet_w18_small": ("HRNet", 64),
    "dla46_c": ("DLA", 64),
    "res2net50_14w_8s": ("Res2Net", 64),
    "repvgg_a0": ("RepVGG", 64),
    "cs3darknet_s": ("CSPNet", 64),
    "mobilevit_xxs": ("MobileViT", 64),
    "mobilevitv2_050": ("MobileViT V2", 64),
    "efficientformer_l1": ("EfficientFormer", 224),
    "fastvit_t8": ("FastViT", 64),
    "edgenext_xx_small": ("EdgeNeXt", 64),
    "vit_tiny_patch16_224": ("ViT", 64),
    "deit_tiny_patch16_224": ("DeiT", 96),
    "deit_tiny_distilled_patch16_224": ("DeiT, distilled", 64),
    "swin_tiny_patch4_window7_224": ("Swin", 224),
    "maxvit_rmlp_pico_rw_256": ("MaxViT", 64),
    "cait_xxs24_224": ("CaiT", 64),
    "xcit_nano_12_p16_224": ("XCiT", 64),
    "poolformer_s12": ("PoolFormer", 64),
    "mixer_s32_224": ("MLP-Mixer", 64),
    "resmlp_12_224": ("ResMLP", 64),
    "levit_128s": ("LeViT", 224),
    "pit_ti_224": ("PiT", 64),
    "twins_svt_small": ("Twins", 224),
    "beit_base_patch16_224": ("BEiT", 64),
    "vgg11_bn": ("VGG", 64),
}
STEPS = ("trains", "prunes", "file", "numpy", "native", "onnx")
TITLES = ("trains a step", "keeps its budget", "file", "numpy = torch", "native = torch", "ONNX = torch")
ENOUGH = 22
TOLERANCE = 1e-4  # of the largest logit
BUDGET = 0.25
DOMAINS = ("circles", "squares")
BEGIN, END = "<!-- zoo table: begin -->", "<!-- zoo table: end -->"
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(NETWORKS))
    parser.add_argument("--json", type=Path, default=Path("docs/results/zoo.json"))
    parser.add_argument("--page", type=Path, default=Path("docs/zoo.md"))
    parser.add_argument("--seconds", type=int, default=300, help="processor time of one network")
    parser.add_argument("--jobs", type=int, default=1, help="networks at a time")
    parser.add_argument("--again", action="store_true", help="compute rows that are already there")
    parser.add_argument("--row", type=Path, help=argparse.SUPPRESS)  # of the process of one network: its result
    arguments = parser.parse_args()
    if arguments.row:
        compute_row(arguments.names[0], arguments.row, arguments.seconds)
        return
    saved = json.loads(arguments.json.read_text())["networks"] if arguments.json.exists() else []
    rows: dict[str, Row] = {row["network"]: row for row in saved}
    missing = [name for name in arguments.names if name not in rows or arguments.again]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        waiting = [pool.submit(row_of, name, arguments.seconds) for name in missing]
        for done in as_completed(waiting):
            row = done.result()
            rows[row["network"]] = row
            print(f"{row['network']}: {in_words(row)} ({row['seconds']} s)", flush=True)
            ordered = [rows[known] for known in NETWORKS if known in rows]
            content = {"command": "python -m benchmarks.zoo_table", "machine": describe_machine(), "networks": ordered}
            arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    ordered = [rows[known] for known in NETWORKS if known in rows]
    if arguments.page.exists():
        text = arguments.page.read_text()
        before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
        arguments.page.write_text(f"{before}\n\n{markdown(ordered)}\n\n{after}")
    equal = sum(is_equal(row) for row in ordered)
    print(f"{equal} of {len(ordered)} networks become a file whose logits are torch's")
    if equal < ENOUGH:
        raise SystemExit(f"missed: {ENOUGH} networks should")


def row_of(name: str, seconds: int) -> Row:
    """Compute the row of a network in a process of its own."""
    family, size = NETWORKS[name]
    row: Row = {"network": name, "family": family, "size": size}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "row.json"
        command = [sys.executable, "-m", "benchmarks.zoo_table", name, "--row", str(result)]
        command += ["--seconds", str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)
        if done.returncode:
            print(done.stderr[-2000:], file=sys.stderr)
        reason = f"over {seconds} s" if done.returncode == -signal.SIGXCPU else "crash"
        row |= json.loads(result.read_text()) if result.exists() else {}
    for step in STEPS:  # the first that is missing is the one that did not end
        if step not in row:
            row[step] = {"yes": False, "reason": reason}
        if not row[step]["yes"]:
            break
    return row | {"seconds": round(time.monotonic() - began, 1)}


def compute_row(name: str, result: Path, seconds: int) -> None:
    """Take a network as far as it goes, and write what was reached after every step."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 10))
    torch.set_num_threads(1)
    row: Row = {}
    work = _Work(name, result.parent)
    steps: dict[str, Callable[[], Row]] = {
        "trains": work.train,
        "prunes": work.prune,
        "file": work.write,
        "numpy": work.numpy,
        "native": work.native,
        "onnx": work.onnx,
    }
    for step, take in steps.items():
        try:
            began = time.process_time()
            row[step] = {"yes": True} | take()
            row[step]["cpu_seconds"] = round(time.process_time() - began, 1)
        except Exception as error:  # a row says what went wrong, whatever it is
            row[step] = {"yes": False, "reason": in_a_word(error), "error": f"{type(error).__name__}: {error}"[:500]}
        result.write_text(json.dumps(row))
        if not row[step]["yes"] and step not in ("numpy", "native"):
            break


class DifferentError(ValueError):
    """Logits that are not those of torch."""


class _Work:
    """One network, step by step."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.size = NETWORKS[name][1]
        self.file = folder / "model.prunus"

    def train(self) -> Row:
        """Train one step on noise, as a user trains."""
        rng = np.random.default_rng(0)
        images = rng.integers(0, 256, (4, self.size, self.size, 3), dtype=np.uint8)
        content = {
            "backbone": {"name": f"timm/{self.name}", "weights": "random", "size": self.size},
            "domains": [f"python:{domain}" for domain in DOMAINS],
            "budget": BUDGET,
            "training": {"epochs": 1, "batch_size": 8, "strategy": "mixed", "splits": "train"},
        }
        domains = {
            domain: prunus.OwnDomain((list(images), [0, 1, 0, 1]), (list(images), [0, 1, 0, 1]), classes=("a", "b"))
            for domain in DOMAINS
        }
        with Own(None, domains).passed(None):
            start_run(prunus.parse_recipe(content), self.folder / "run", [], "cpu", use_cache=False)
        run = self.run
        costs = dense_costs(run.backbone)
        assert run.net.switches is not None
        return {
            "steps": run.checkpoint.position.step,
            "layers": len(costs.layers),
            "weights": costs.dense_weights(),
            "macs": costs.dense_macs(),
            "product_macs": costs.product_macs,
            "granularity": run.net.switches.layout.granularity,
            "notes": list(run.backbone.notes),
        }

    @cached_property
    def run(self) -> TrainedRun:
        """Return the trained network."""
        return open_run(self.folder / "run", "cpu")

    def prune(self) -> Row:
        """Count the kernels that the budget leaves on, as a model file has them if there can be one."""
        run = self.run
        costs = used_kernels(run.net, run.preprocess, packable=True)
        most = whole_share(BUDGET, dense_costs(run.backbone).num_kernels())
        used = round(costs.union() * costs.num_kernels())
        if used > most:
            raise DifferentError(f"{used} of {most} kernels")
        return {"kernels": used, "limit": most}

    def write(self) -> Row:
        """Write the model file."""
        prunus.prune(self.folder / "run", self.file)
        return {"bytes": self.file.stat().st_size}

    def numpy(self) -> Row:
        """Compare the numpy engine with torch."""
        engine = NumpyEngine(read_bundle(self.file))
        return self._compare(engine.logits)

    def native(self) -> Row:
        """Compare the native engine with torch."""
        os.environ.pop("PRUNUS_ENGINE", None)
        predictor = Predictor(self.file)
        if predictor.engine == "numpy":
            raise DifferentError("the native engine is missing")
        return self._compare(predictor._engine.logits)

    def onnx(self) -> Row:
        """Compare ONNX Runtime with torch."""
        import onnxruntime  # noqa: PLC0415  # optional package

        folder = self.folder / "onnx"
        prunus.export(self.file, folder)

        def logits(images: Floats, domain: str) -> Floats:
            session = onnxruntime.InferenceSession(folder / f"{domain}.onnx", providers=["CPUExecutionProvider"])
            (result,) = session.run(None, {session.get_inputs()[0].name: images})
            return np.asarray(result, np.float32)

        return self._compare(logits)

    @torch.no_grad()
    def _compare(self, compute: Callable[[Floats, str], Floats]) -> Row:
        rng = np.random.default_rng(1)
        images = rng.standard_normal((2, 3, self.size, self.size)).astype(np.float32)
        worst = 0.0
        for domain in DOMAINS:
            theirs = self.run.net(torch.from_numpy(images), domain).numpy()
            largest = float(np.abs(theirs).max())
            difference = float(np.abs(compute(images, domain) - theirs).max())
            worst = max(worst, difference / largest)
        if not worst <= TOLERANCE:
            raise DifferentError(f"the logits differ by {worst:.1e} of the largest")
        return {"difference": worst}


def in_a_word(error: Exception) -> str:
    """Return what an error is about in a word or two."""
    text = str(error)
    patterns = (
        (r"the operation 'softmax\w*' of something else", "softmax outside attention"),
        (r"the operation '\w+' on scores of attention", "layers on attention scores"),
        (r"the operation 'linear\w*' with the weights of", "weights used without their layer"),
        (r"layer '[^']*' \((\w+)\) is not among", "layer {}"),
        (r"the operation '(\w+?)(?:_\d+)?' is not among", "operation {}"),
        (r"cannot be traced as a graph \((.*)\)", "control flow"),
        (r"the model cannot be written: .* memory", "memory of its file"),
        (r"logits differ", "other logits"),
        (r"changes its shape", "shapes"),
        (r"does not accept images", "image size"),
    )
    for pattern, word in patterns:
        if found := re.search(pattern, text):
            return word.format(*found.groups())
    return type(error).__name__


def is_equal(row: Row) -> bool:
    """Return whether a network became a file whose logits are torch's in both engines."""
    return all(row.get(step, {}).get("yes", False) for step in ("file", "numpy", "native"))


def in_words(row: Row) -> str:
    """Return what a network has reached, in one line."""
    return ", ".join(f"{step} {_cell(row.get(step))}" for step in STEPS)


def _cell(step: Row | None) -> str:
    if step is None:
        return "-"
    return "yes" if step["yes"] else f"no: {step['reason']}"


def markdown(rows: list[Row]) -> str:
    """Return the table of a page."""
    head = ("network", "family", "px", "weights", *TITLES)
    lines = [f"| {' | '.join(head)} |", "|---|---|--:|--:|" + "---|" * len(TITLES)]
    for row in rows:
        weights = f"{row['trains']['weights'] / 1e6:.1f} M" if row["trains"]["yes"] else "-"
        cells = [_cell(row.get(step)) for step in STEPS]
        lines.append(f"| `{row['network']}` | {row['family']} | {row['size']} | {weights} | {' | '.join(cells)} |")
    equal = sum(is_equal(row) for row in rows)
    return "\n".join([*lines, "", f"{equal} of {len(rows)} networks become a file whose logits are torch's."])


if __name__ == "__main__":
    main()
