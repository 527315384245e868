"""Write a torch network as an ONNX file with the exporter of torch, in float32 or in 8 bits."""

import warnings
from pathlib import Path

import numpy as np
import torch

from prunus.alternatives.common.joint import JointNetwork
from prunus.arrays import Floats
from prunus.errors import BundleError, MissingExtraError
from prunus.files import write_atomically
from prunus.timing.eight_bits import quantize
from prunus.timing.sessions import onnx_run

INPUT = "images"
CHECKED = 2  # images with which an export is compared to the network; one would fix the size of a batch
TOLERANCE = 1e-3  # of logits, relative to the largest one


def write_onnx(path: Path, network: JointNetwork, size: int, calibration: Floats | None = None) -> None:
    """Write a network; with images to calibrate with, in 8 bits."""
    model = to_onnx(network, size)
    write_atomically(path, model if calibration is None else quantize(model, calibration))


def to_onnx(network: JointNetwork, size: int) -> bytes:
    """Return a network as an ONNX model of any batch size, with one output per domain."""
    try:
        import onnxscript  # noqa: F401, PLC0415  # optional: torch's exporter needs it
    except ImportError:
        raise MissingExtraError("onnxscript", "versus", "exporting a network") from None
    example = torch.randn(CHECKED, 3, size, size, generator=torch.Generator().manual_seed(0))
    plain = network.cpu().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of changes in its own next versions
        exported = torch.onnx.export(
            plain,
            (example,),
            input_names=[INPUT],
            output_names=list(network.domains),
            dynamic_shapes={INPUT: {0: torch.export.Dim("batch", min=1)}},
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    if exported is None:
        raise BundleError("torch exported no ONNX model; try another version of torch")
    model = bytes(exported.model_proto.SerializeToString())
    _check(model, plain, example)
    return model


@torch.no_grad()
def _check(model: bytes, network: JointNetwork, example: torch.Tensor) -> None:
    """Compare an exported model with the network: exporters are sometimes wrong."""
    for domain, expected in zip(network.domains, network(example), strict=True):
        found = onnx_run(model, 1, domain)(example.numpy())
        error = float(np.abs(found - expected.numpy()).max() / max(1.0, float(expected.abs().max())))
        if not error < TOLERANCE:
            raise BundleError(
                f"the ONNX model of {domain!r} does not compute what the network does (its logits differ by "
                f"{error:.2g} of the largest); try another version of torch"
            )
