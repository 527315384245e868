"""Take one network of timm as far as it goes: the row of the table of networks.

What a row says about a network is in `benchmarks.zoo_table`.
"""

from __future__ import annotations

import json
import os
import re
import resource
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

import prunus
from benchmarks.zoo_networks import NETWORKS
from benchmarks.zoo_weights import draw_weights, moved_by_scrambling
from prunus.arrays import Floats
from prunus.backbone.timm_networks import build_timm
from prunus.backbone.weights import write_weights
from prunus.budgets.counting import used_kernels
from prunus.bundle.file import read_bundle
from prunus.measure.budget import whole_share
from prunus.measure.cost import CostReport
from prunus.methods.costs import dense_costs
from prunus.runtime.numpy_engine import NumpyEngine
from prunus.runtime.predictor import Predictor
from prunus.training.run import TrainedRun, open_run, start_run
from prunus.verbs.arguments import Own

TOLERANCE = 1e-4  # of the largest logit
BUDGET = 0.25
DOMAINS = ("circles", "squares")
GOES_ON = ("live", "numpy", "native")  # a row says what comes after these even where they fail
Row = dict[str, Any]


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
        "live": work.live,
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
        if not row[step]["yes"] and step not in GOES_ON:
            break


class DifferentError(ValueError):
    """Logits that are not those of torch."""


class UnusedError(ValueError):
    """Layers of the model file that do not count."""


class _Work:
    """One network, step by step."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.size = NETWORKS[name][1]
        self.file = folder / "model.prunus"

    def train(self) -> Row:
        """Train one step on noise, as a user trains, from weights with which every layer counts."""
        torch.manual_seed(0)
        network = build_timm(f"timm/{self.name}", self.size)
        drawn = draw_weights(network)
        weights = self.folder / "weights.safetensors"
        write_weights(weights, network)
        rng = np.random.default_rng(0)
        images = rng.integers(0, 256, (4, self.size, self.size, 3), dtype=np.uint8)
        content = {
            "backbone": {
                "name": f"timm/{self.name}",
                "weights": str(self.folder / "weights.safetensors"),
                "size": self.size,
            },
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
            "drawn": drawn,
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

    @cached_property
    def costs(self) -> CostReport:
        """Return the costs of the trained network as a model file has them if there can be one."""
        return used_kernels(self.run.net, self.run.preprocess, packable=True)

    def prune(self) -> Row:
        """Count the kernels that the budget leaves on."""
        most = whole_share(BUDGET, dense_costs(self.run.backbone).num_kernels())
        used = round(self.costs.union() * self.costs.num_kernels())
        if used > most:
            raise DifferentError(f"{used} of {most} kernels")
        return {"kernels": used, "limit": most}

    def write(self) -> Row:
        """Write the model file."""
        prunus.prune(self.folder / "run", self.file)
        return {"bytes": self.file.stat().st_size}

    def live(self) -> Row:
        """Check that the logits depend on every layer of which the budget leaves kernels on."""
        layers = [layer.name for layer in self.costs.layers if layer.union]
        moved = moved_by_scrambling(self.run.net.eval(), torch.from_numpy(self.images), layers)
        unused = [layer for layer, distance in moved.items() if not distance > TOLERANCE]
        if unused:
            raise UnusedError(f"{len(unused)} of {len(layers)} layers do not count: {', '.join(unused)}")
        return {"layers": len(layers), "moved_at_least": min(moved.values())}

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

    @cached_property
    def images(self) -> Floats:
        """Return the images whose logits are compared."""
        rng = np.random.default_rng(1)
        return rng.standard_normal((2, 3, self.size, self.size)).astype(np.float32)

    @torch.no_grad()
    def _compare(self, compute: Callable[[Floats, str], Floats]) -> Row:
        images = torch.from_numpy(self.images)
        pairs = ((compute(self.images, domain), self.run.net(images, domain).numpy()) for domain in DOMAINS)
        return {"difference": largest_difference(pairs)}


def largest_difference(pairs: Iterable[tuple[Floats, Floats]]) -> float:
    """Return the largest difference of logits from those of torch, which come second, relative to the largest."""
    worst = float(np.max([np.abs(ours - theirs).max() / np.abs(theirs).max() for ours, theirs in pairs]))
    if not worst <= TOLERANCE:  # also where it is no number
        raise DifferentError(f"the logits differ by {worst:.1e} of the largest")
    return worst


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
        (r"logits .*differ", "other logits"),
        (r"(\d+) of \d+ layers do not count", "{} do not"),
        (r"changes its shape", "shapes"),
        (r"does not accept images", "image size"),
    )
    for pattern, word in patterns:
        if found := re.search(pattern, text):
            return word.format(*found.groups())
    return type(error).__name__
