"""Time a transformer without half of its heads and MLP neurons in ONNX Runtime, beside the whole network.

    python -m benchmarks.dense_heads [--json FILE] [--rounds 40]

The network is timm's deit_tiny_patch16_224 at 224 px with random weights, in one thread, one image at a time. Half of
the switches of granularity "channel" are off: half of the neurons of every MLP, and of the three heads of attention two
and one in turns. Both models are exported by Prunus as float32 and take turns in one process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from prunus.backbone.zoo import Backbone, load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry
from prunus.config import BackboneChoice
from prunus.lowering.pack import pack
from prunus.masks.network import MultiDomainNet
from prunus.methods.exact import Options
from prunus.methods.table import adapt
from prunus.onnx.model import domain_model
from prunus.timing.machine import describe_machine

NAME, SIZE, DOMAIN, CLASSES = "timm/deit_tiny_patch16_224", 224, "a", tuple("abcdefghij")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("docs/results/dense_heads.json"))
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    backbone = load_backbone(BackboneChoice(name=NAME, weights="random", size=SIZE))
    net = adapt(backbone, {DOMAIN: CLASSES}, "exact", options=Options(granularity="channel")).eval()
    models = {"whole": packed(net, backbone)}
    switch_half_off(net)
    models["half"] = packed(net, backbone)
    image = np.random.default_rng(0).standard_normal((1, 3, SIZE, SIZE)).astype(np.float32)
    sessions = {name: session_of(bundle) for name, bundle in models.items()}
    with torch.no_grad():
        expected = net(torch.from_numpy(image), DOMAIN).numpy()
    difference = float(np.abs(logits(sessions["half"], image) - expected).max() / np.abs(expected).max())
    medians = time_in_turns(sessions, image, arguments.rounds)
    result = {
        "command": "python -m benchmarks.dense_heads",
        "machine": describe_machine(),
        "milliseconds": medians,
        "times_as_fast": medians["whole"] / medians["half"],
        "difference_from_torch": difference,
        "weights": {name: weights_of(bundle) for name, bundle in models.items()},
    }
    arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def switch_half_off(net: MultiDomainNet) -> None:
    """Switch off half of the neurons of every MLP, and of three heads one and two in turns."""
    assert net.switches is not None
    first = 0
    for layer, count in enumerate(net.switches.layout.sizes):
        off = (count + layer // 2 % 2) // 2
        with torch.no_grad():
            net.switches.scores_DM[:, first : first + off] = -1.0
        first += count


def packed(net: MultiDomainNet, backbone: Backbone) -> Bundle:
    """Return the model file of a network."""
    entry = DomainEntry(classes=CLASSES, preprocess=backbone.preprocess)
    return pack(net, backbone, {DOMAIN: entry}, {"recipe": {}})


def weights_of(bundle: Bundle) -> int:
    """Count the weights of all layers of a model file."""
    return sum(int(array.size) for name, array in bundle.arrays.items() if name.startswith("kernels/"))


def session_of(bundle: Bundle) -> Any:  # noqa: ANN401  # onnxruntime is untyped
    """Open the exported model in one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model = domain_model(onnx, bundle, DOMAIN).SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def logits(session: Any, image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:  # noqa: ANN401
    """Compute one image."""
    result: np.ndarray[Any, Any] = session.run(None, {session.get_inputs()[0].name: image})[0]
    return result


def time_in_turns(sessions: dict[str, Any], image: np.ndarray[Any, Any], rounds: int) -> dict[str, float]:
    """Return the median milliseconds of each model."""
    seconds: dict[str, list[float]] = {name: [] for name in sessions}
    for number in range(rounds + 3):
        for name, session in sessions.items():
            began = time.perf_counter()
            logits(session, image)
            if number >= 3:
                seconds[name].append(time.perf_counter() - began)
    return {name: round(1000 * statistics.median(row), 2) for name, row in seconds.items()}


if __name__ == "__main__":
    main()
