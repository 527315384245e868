"""Measure how much faster ONNX Runtime runs a network with filters switched off, one image at a time.

    python -m benchmarks.onnx_speed [--backbone wrn28_4] [--share 0.5] [--threads 1] [--json FILE]

Filters that feed only the next convolution are switched off at random. What remains is a smaller dense network with the
same outputs. Both networks run in one process, in turns, and the medians are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from rich.console import Console
from rich.table import Table

import prunus
from prunus.backbone.zoo import Backbone, load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import write_bundle
from prunus.bundle.manifest import DomainEntry
from prunus.bundle.packing import from_bundle
from prunus.config import BackboneChoice
from prunus.graph.cut import cut
from prunus.graph.operations import Conv
from prunus.lowering.build import build_graph
from prunus.lowering.pack import pack
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import METHODS, adapt
from prunus.timing.machine import describe_machine

ROUNDS = 200


def make_net(backbone: Backbone, share: float) -> MultiDomainNet:
    """Switch off a share of the filters of every convolution whose dead channels can be removed."""
    options = METHODS["union"].options.model_validate({"granularity": "filter"})
    net = adapt(backbone, {"domain": ("a", "b")}, "union", options=options).eval()
    assert net.switches is not None
    generator, scores = torch.Generator().manual_seed(0), net.switches.scores_DM
    with torch.no_grad():
        views = net.switches.layout.views(scores)
        for name, view in views.items():
            view[:, 0] = -1.0
            removable = len(cut(build_graph(net)).weights[name]) < view.shape[1]
            view[:, 0] = 1.0
            if removable:
                off = torch.randperm(view.shape[1], generator=generator)[: round(share * view.shape[1])]
                view[:, off] = -1.0
    return net


def make_bundle(net: MultiDomainNet, backbone: Backbone) -> Bundle:
    entry = DomainEntry(classes=("a", "b"), preprocess=backbone.preprocess)
    return pack(net, backbone, {"domain": entry}, {"recipe": {}, "step": 1, "total_steps": 1})


def macs(bundle: Bundle) -> int:
    """Count the multiply-accumulates of the convolutions of an exported network, for one image."""
    network = cut(from_bundle(bundle, ["domain"]))
    total = 0
    for operation, shape in zip(network.graph, network.shapes[1:], strict=True):
        if isinstance(operation, Conv):
            total += prod(operation.channels) * prod(operation.kernel) * prod(shape[1:])
    return total


def session(bundle: Bundle, folder: Path, threads: int) -> Any:  # noqa: ANN401  # untyped
    folder.mkdir()
    write_bundle(folder / "m.prunus", bundle)
    (path,) = prunus.export(folder / "m.prunus", folder / "onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def measure(backbone_name: str, share: float, threads: int) -> dict[str, float]:
    weights = "random" if backbone_name.startswith("timm/") else "pretrained"
    backbone = load_backbone(BackboneChoice(name=backbone_name, weights=weights))
    size = backbone.preprocess.size
    dense, pruned = (make_bundle(make_net(backbone, each), backbone) for each in (0.0, share))
    images = np.random.default_rng(0).standard_normal((1, 3, size, size)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        sessions = [session(each, Path(folder) / name, threads) for name, each in (("d", dense), ("p", pruned))]
        times: list[list[float]] = [[], []]
        for _ in range(ROUNDS):
            for place, each in enumerate(sessions):
                began = time.perf_counter()
                each.run(None, {"images": images})
                times[place].append(time.perf_counter() - began)
    slow, fast = (1000 * statistics.median(each[20:]) for each in times)
    ratio = macs(pruned) / macs(dense)
    return {"dense_ms": slow, "pruned_ms": fast, "macs_ratio": ratio, "speed_up": slow / fast}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="wrn28_4")
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = measure(arguments.backbone, arguments.share, arguments.threads)
    table = Table(
        title=f"{arguments.backbone}, batch 1, {arguments.threads} thread(s), ONNX Runtime {onnxruntime.__version__}"
    )
    for column in ("dense", "pruned", "MACs really run", "speed-up"):
        table.add_column(column, justify="right")
    times = (f"{found['dense_ms']:.2f} ms", f"{found['pruned_ms']:.2f} ms")
    table.add_row(*times, f"{found['macs_ratio']:.3f}", f"{found['speed_up']:.2f} x")
    Console().print(table)
    print(describe_machine())
    if arguments.json:
        content = found | {"backbone": arguments.backbone, "threads": arguments.threads, "machine": describe_machine()}
        arguments.json.write_text(json.dumps(content | {"onnxruntime": onnxruntime.__version__}, indent=2) + "\n")


if __name__ == "__main__":
    main()
