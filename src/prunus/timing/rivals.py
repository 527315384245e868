"""The engines that a model file is compared with, as far as their packages are installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.errors import PrunusError, install_command

if TYPE_CHECKING:
    from torch import nn

EXTRAS = {"torch": "train", "onnx": "onnx", "onnxruntime": "onnx"}  # package -> the extra that installs it
ONNX_PRUNED, ONNX_DENSE, TORCH_DENSE = "ONNX pruned", "ONNX dense", "PyTorch dense"

Run = Callable[[Floats], object]
Runs = dict[tuple[str, str | None], Run]  # (engine, domain) -> what runs it; dense networks have no domain


class Rivals:
    """The other engines, built once and run with any number of threads.

    Attributes:
        versions: package -> its version.
        missing: engine -> why it cannot be timed.
    """

    def __init__(self, bundle: Bundle, domains: Sequence[str]) -> None:
        self.versions = {"numpy": np.__version__}
        self.missing: dict[str, str] = {}
        self._bundle = bundle
        self._domains = domains
        self._models: dict[tuple[str, str | None], bytes] = {}
        self._network: nn.Module | None = None
        builders = {ONNX_PRUNED: self._export, TORCH_DENSE: self._build_dense, ONNX_DENSE: self._export_dense}
        for engine, build in builders.items():
            try:
                build()
            except ModuleNotFoundError as error:
                self.missing[engine] = _not_installed(error.name)
            except (ImportError, PrunusError) as error:
                self.missing[engine] = str(error)

    def runs(self, threads: int) -> Runs:
        """Return what can be run with a number of threads."""
        runs: Runs = {key: _onnx_run(model, threads) for key, model in self._models.items()}
        if self._network is not None:
            runs[TORCH_DENSE, None] = _torch_run(self._network)
        return runs

    def _export(self) -> None:
        import onnxruntime  # noqa: PLC0415  # optional, as all imports below

        self.versions["onnxruntime"] = onnxruntime.__version__
        for domain in self._domains:
            self._models[ONNX_PRUNED, domain] = _onnx_bytes(self._bundle, domain)

    def _build_dense(self) -> None:
        import torch  # noqa: PLC0415

        from prunus.timing.dense import dense_network  # noqa: PLC0415

        self.versions["torch"] = torch.__version__
        self._network = dense_network(self._bundle.manifest)

    def _export_dense(self) -> None:
        import onnxruntime  # noqa: PLC0415, F401

        from prunus.timing.dense import DOMAIN, dense_bundle  # noqa: PLC0415

        self._models[ONNX_DENSE, None] = _onnx_bytes(dense_bundle(self._bundle.manifest), DOMAIN)


def _not_installed(package: str | None) -> str:
    extra = EXTRAS.get(package or "")
    return f"{package} is not installed" + (f"; install it with: {install_command(extra)}" if extra else "")


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch, if it is loaded, compute with a number of threads; the number holds for the whole process."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _onnx_bytes(bundle: Bundle, domain: str) -> bytes:
    import onnx  # noqa: PLC0415

    from prunus.onnx.model import domain_model  # noqa: PLC0415

    return bytes(domain_model(onnx, bundle, domain).SerializeToString())


def _onnx_run(model: bytes, threads: int) -> Run:
    import onnxruntime  # noqa: PLC0415

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda images: session.run(None, {"images": images})


def _torch_run(network: nn.Module) -> Run:
    import torch  # noqa: PLC0415

    def run(images: Floats) -> object:
        with torch.inference_mode():
            return network(torch.from_numpy(images))

    return run
