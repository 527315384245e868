"""Models in other engines: functions from images to logits that compute with a number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from prunus.arrays import Floats
from prunus.errors import BundleError

if TYPE_CHECKING:
    from torch import nn

Run = Callable[[Floats], Floats]


def onnx_run(model: bytes, threads: int, output: str | None = None) -> Run:
    """Load an ONNX model in ONNX Runtime; `output` is the one to return of a model with several."""
    import onnxruntime  # noqa: PLC0415  # optional, as all imports below

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors only, which are raised
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def run(images: Floats) -> Floats:
        logits: Floats = session.run([output] if output else None, {"images": images})[0]
        return logits

    return run


def openvino_run(model: bytes, threads: int, precision: str) -> Run:
    """Load an ONNX model in OpenVINO; `precision` is that of operations in floating point."""
    import openvino  # noqa: PLC0415

    core = openvino.Core()
    try:
        settings = openvino_settings(threads, precision)
        request = core.compile_model(core.read_model(model), "CPU", settings).create_infer_request()
    except RuntimeError as reason:
        lines = [line for line in str(reason).splitlines() if line and not line.startswith("Exception from")]
        raise BundleError(f"OpenVINO cannot load the network: {' '.join(lines)[:300]}; try another version") from reason

    def run(images: Floats) -> Floats:
        logits: Floats = request.infer({"images": images})[0]
        return logits

    return run


def openvino_settings(threads: int, precision: str) -> dict[str, int | str]:
    """Return the settings of OpenVINO that compute one image as fast as possible."""
    return {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}


def torch_run(network: nn.Module) -> Run:
    """Run a network in PyTorch, with the number of threads of the process."""
    import torch  # noqa: PLC0415

    def run(images: Floats) -> Floats:
        with torch.inference_mode():
            logits: Floats = network(torch.from_numpy(images)).numpy()
            return logits

    return run
