"""Measure a transformer with random masks against ONNX Runtime with the dense network, in float32 and in 8 bits.

    python -m benchmarks.transformer_speed [--network NAME] [--off 0.75] [--rounds 60] [--json FILE]

One image at a time, one thread. Blocks of four inputs are switched off at random in every linear layer and kernels in
every other layer. ONNX Runtime runs the same network with everything on, in its fastest form: as torch exports it or as
Prunus does, and in 8 bits quantized by its own tools, statically or dynamically. If OpenVINO is installed, it runs the
same static models, and with nncf those that nncf quantizes for it. All take turns in one process, each with many calls
in a row, and the medians are compared. What an engine cannot load is named. A ratio below its target is an error.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime import quantization
from torch import nn

from benchmarks.int8_speed import in_eight_bits
from prunus.arrays import Floats
from prunus.backbone.zoo import Backbone, load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry
from prunus.config import BackboneChoice
from prunus.errors import PrunusError, first_line
from prunus.graph.network import GraphNetwork
from prunus.lowering.pack import Description, bundle_of, lower
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import adapt
from prunus.onnx.model import domain_model
from prunus.quantizing.images import Pictures
from prunus.runtime._native import available_kernels
from prunus.runtime.native_engine import NativeEngine
from prunus.timing.eight_bits import quantize
from prunus.timing.machine import describe_machine
from prunus.timing.sessions import Run, onnx_run, openvino_run, openvino_settings
from prunus.timing.speeds import take_turns

TARGETS = {"float32": 2.5, "int8": 1.5}
CLASSES = ("a", "b")
NUM_IMAGES = 4  # for the ranges of activations
PAUSE = 0.002  # seconds; longer than idle threads spin
LANES = 4


def switched_off(network: GraphNetwork, share: float) -> GraphNetwork:
    """Switch off a share of every layer at random: blocks of four inputs where kernels have one pixel, else kernels."""
    rng = np.random.default_rng(0)
    masks = {}
    for layer, weight in network.weights.items():
        outputs, inputs, *kernel = weight.shape
        width = LANES if kernel == [1, 1] else 1
        is_on = rng.random((1, outputs, -(-inputs // width))) >= share
        masks[layer] = is_on.repeat(width, axis=2)[:, :, :inputs]
    return replace(network, masks=masks)


def packed(net: MultiDomainNet, backbone: Backbone, network: GraphNetwork) -> Bundle:
    entry = DomainEntry(classes=CLASSES, preprocess=backbone.preprocess)
    return bundle_of(network, Description(backbone.name, net.dense_bytes(), {"domain": entry}, {}))


def exported(net: MultiDomainNet, image: Floats) -> bytes:
    """Return the dense network as torch itself exports it."""

    class OneDomain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network, self.head = net.network, net.heads[0]

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.head(self.network(images))
            return logits

    with warnings.catch_warnings(), torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        images = torch.from_numpy(image)
        file = Path(folder) / "dense.onnx"
        torch.onnx.export(OneDomain().eval(), (images,), file, input_names=["images"], dynamo=False)
        return file.read_bytes()


def dynamic(model: bytes) -> bytes:
    """Return a model whose products ONNX Runtime computes in 8 bits, with ranges that it measures in every run."""
    with tempfile.TemporaryDirectory() as folder:
        wide, narrow = Path(folder) / "wide.onnx", Path(folder) / "narrow.onnx"
        wide.write_bytes(model)
        logging.disable(logging.WARNING)
        try:
            quantization.quantize_dynamic(wide, narrow, weight_type=quantization.QuantType.QInt8, per_channel=True)
        finally:
            logging.disable(logging.NOTSET)
        return narrow.read_bytes()


def ours(bundle: Bundle, image: Floats) -> Callable[[], object]:
    engine = NativeEngine(bundle, threads=1)
    return lambda: engine.logits(image, "domain")


def rivals(net: MultiDomainNet, backbone: Backbone, network: GraphNetwork, images: Floats) -> dict[str, bytes]:
    as_written = domain_model(onnx, packed(net, backbone, network), "domain").SerializeToString()
    of_torch = exported(net, images[:1])
    return {
        "float32, exported by Prunus": as_written,
        "float32, exported by torch": of_torch,
        "int8, static, exported by Prunus": quantize(as_written, images),
        "int8, static, exported by torch": quantize(of_torch, images),
        "int8, dynamic, exported by torch": dynamic(of_torch),
    }


def quantized_by_nncf(model: bytes, images: Floats) -> Run:
    """Quantize a model with nncf, OpenVINO's own tool, and load it."""
    import nncf  # noqa: PLC0415  # optional, as OpenVINO
    import openvino  # noqa: PLC0415

    core = openvino.Core()
    dataset = nncf.Dataset([{"images": image[None]} for image in images])
    logging.disable(logging.WARNING)
    try:
        narrow = nncf.quantize(core.read_model(model), dataset, model_type=nncf.ModelType.TRANSFORMER)
    finally:
        logging.disable(logging.NOTSET)
    request = core.compile_model(narrow, "CPU", openvino_settings(1, "f32")).create_infer_request()

    def run(images: Floats) -> Floats:
        logits: Floats = request.infer({"images": images})[0]
        return logits

    return run


def loaded(models: dict[str, bytes], images: Floats) -> tuple[dict[str, Run], dict[str, str]]:
    """Return what runs every model in every engine that is installed, and why others cannot be timed."""
    runs: dict[str, Run] = {title: onnx_run(model, threads=1) for title, model in models.items()}
    loaders: dict[str, Callable[[], Run]] = {
        title.replace(",", ", OpenVINO,", 1): partial(openvino_run, model, 1, "f32")
        for title, model in models.items()
        if "dynamic" not in title
    }
    for title in ("float32, exported by Prunus", "float32, exported by torch"):
        loaders[f"int8, OpenVINO, nncf,{title.partition(',')[2]}"] = partial(quantized_by_nncf, models[title], images)
    missing = {}
    for title, load in loaders.items():
        try:
            runs[title] = load()
        except ModuleNotFoundError as error:
            missing[title] = f"{error.name} is not installed"
        except (
            PrunusError,
            RuntimeError,
        ) as error:  # nncf and OpenVINO raise RuntimeError for networks they do not know
            missing[title] = first_line(error)
    return runs, missing


def measure(name: str, share: float, rounds: int) -> tuple[dict[str, float], dict[str, str]]:
    """Return the median milliseconds of every run, and why others cannot be timed."""
    backbone = load_backbone(BackboneChoice(name=name, weights="random", size=None))
    size = backbone.preprocess.size
    pixels = np.random.default_rng(0).integers(0, 256, (NUM_IMAGES, 3, size, size), dtype=np.uint8)
    pictures = Pictures(pixels, backbone.preprocess)
    images = next(pictures.prepared(NUM_IMAGES))
    net = adapt(backbone, {"domain": CLASSES}, "union").eval()
    dense = lower(net)
    wide = packed(net, backbone, switched_off(dense, share))
    narrow = in_eight_bits(wide, pictures)
    runs = {"Prunus float32": ours(wide, images[:1]), "Prunus int8": ours(narrow, images[:1])}
    others, missing = loaded(rivals(net, backbone, dense, images), images)
    runs |= {title: partial(run, images[:1]) for title, run in others.items()}
    return {key: latency.median_ms for key, latency in take_turns(runs, rounds, PAUSE).items()}, missing


def ratios(times: dict[str, float]) -> dict[str, float]:
    """Return how many times as fast as the fastest rival of its type each of our runs is."""
    return {
        kind: min(ms for title, ms in times.items() if title.startswith(f"{kind},")) / times[f"Prunus {kind}"]
        for kind in TARGETS
    }


def installed_version(package: str) -> str | None:
    """Return the version of a package, if it is installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="timm/deit_tiny_patch16_224")
    parser.add_argument("--off", type=float, default=0.75, help="share of the blocks that is off (default 0.75)")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.rounds < 1 or not 0 <= arguments.off < 1:
        parser.error("--rounds must be at least 1 and --off from 0 to 1")
    times, missing = measure(arguments.network, arguments.off, arguments.rounds)
    for title, ms in times.items():
        print(f"{title:44}{ms:8.2f} ms")
    for title, reason in missing.items():
        print(f"{title:44}not timed: {reason}")
    found = ratios(times)
    for kind, ratio in found.items():
        print(f"{kind}: {ratio:.2f} x as fast as the fastest rival; the target is {TARGETS[kind]}")
    print(f"{arguments.network}, {arguments.off:.0%} off; {describe_machine()}; kernels: {available_kernels()[0]}")
    missed = [f"{kind} {ratio:.2f} of {TARGETS[kind]}" for kind, ratio in found.items() if ratio < TARGETS[kind]]
    if arguments.json:
        content = {"network": arguments.network, "off": arguments.off, "onnxruntime": onnxruntime.__version__}
        content |= {"machine": describe_machine(), "kernels": available_kernels()[0], "missed": missed}
        content |= {"openvino": installed_version("openvino"), "nncf": installed_version("nncf"), "missing": missing}
        arguments.json.write_text(json.dumps(content | {"ms": times, "ratios": found}, indent=1) + "\n")
    if missed:
        sys.exit(f"below the target: {'; '.join(missed)}")


if __name__ == "__main__":
    try:
        main()
    except PrunusError as error:
        sys.exit(str(error))
