"""The engines that a model file is compared with, as far as their packages are installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial

import numpy as np

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.errors import PrunusError, install_command
from prunus.measure.speed import ONNX_DENSE
from prunus.onnx.floats import as_float32
from prunus.timing.sessions import Run, onnx_run, openvino_run, torch_run

EXTRAS = {"torch": "train", "onnx": "onnx", "onnxruntime": "onnx"}  # package -> the extra that installs it
ONNX_PRUNED, TORCH_DENSE = "ONNX pruned", "PyTorch dense"
ONNX_INT8, OPENVINO_INT8, OPENVINO_BF16 = "onnxruntime_int8", "openvino_int8", "openvino_bf16"
NUM_RANDOM = 4  # images for the ranges of a network with random weights; they do not change how long it takes

Key = tuple[str, str | None]  # engine and domain; dense networks have no domain
Runs = dict[Key, Run]


class Rivals:
    """The other engines, built once and run with any number of threads.

    Engines of 8 bits and of bfloat16 run the dense network, whose weights are random, and with images also the network
    of every domain, whose answers can be right or wrong. A dense engine does not skip zeros, so both take equally long
    unless whole channels were removed. They start from float32 numbers, also where the file has others.

    Args:
        images: domain -> images for the ranges of 8-bit numbers; without them only dense networks are quantized.

    Attributes:
        versions: package -> its version.
        missing: engine -> why it cannot be timed.
    """

    def __init__(self, bundle: Bundle, domains: Sequence[str], images: Mapping[str, Floats] | None = None) -> None:
        self.versions = {"numpy": np.__version__}
        self.missing: dict[str, str] = {}
        self._bundle = bundle
        self._domains = domains
        self._images = images or {}
        self._makers: dict[Key, Callable[[int], Run]] = {}  # what runs it with a number of threads
        for engine, build in BUILDERS.items():
            try:
                self._makers |= {(engine, domain): maker for domain, maker in build(self)}
            except ModuleNotFoundError as error:
                self.missing[engine] = _not_installed(error.name)
            except (ImportError, PrunusError) as error:
                self.missing[engine] = str(error)

    def runs(self, threads: int) -> Runs:
        """Return what can be run with a number of threads."""
        return {key: make(threads) for key, make in self._makers.items()}

    def pruned(self) -> Built:
        """Yield the network of every domain in ONNX Runtime."""
        self._use("onnxruntime")
        for domain in self._domains:
            yield domain, partial(onnx_run, self._models[domain])

    def dense_in_torch(self) -> Built:
        """Yield the dense network in PyTorch."""
        self._use("torch")
        from prunus.timing.dense import dense_network  # noqa: PLC0415  # torch is optional

        network = dense_network(self._bundle.manifest)
        yield None, lambda threads: torch_run(network)

    def dense(self) -> Built:
        """Yield the dense network in ONNX Runtime."""
        self._use("onnxruntime")
        yield None, partial(onnx_run, self._dense)

    def int8(self) -> Built:
        """Yield networks of 8 bits in ONNX Runtime."""
        self._use("onnxruntime")
        for domain, model in self._quantized.items():
            yield domain, partial(onnx_run, model)

    def openvino_int8(self) -> Built:
        """Yield the same networks of 8 bits in OpenVINO."""
        self._use("openvino")
        yield from _loadable(self._quantized, "f32")

    def openvino_bf16(self) -> Built:
        """Yield networks in OpenVINO that compute in bfloat16, where the processor can."""
        self._use("openvino")
        models: dict[str | None, bytes] = {None: self._dense}
        models.update(self._floats.items())
        yield from _loadable(models, "bf16")

    def _use(self, package: str) -> None:
        self.versions[package] = str(__import__(package).__version__).partition("-")[0]

    @cached_property
    def _models(self) -> dict[str, bytes]:
        return {domain: _onnx_bytes(self._bundle, domain) for domain in self._domains}

    @cached_property
    def _floats(self) -> dict[str, bytes]:
        """The networks of the domains with images in float32, where others start, whatever the type of the file."""
        bundle = as_float32(self._bundle)
        return {domain: _onnx_bytes(bundle, domain) for domain in self._images}

    @cached_property
    def _dense(self) -> bytes:
        from prunus.timing.dense import DOMAIN, dense_bundle  # noqa: PLC0415  # torch is optional

        return _onnx_bytes(dense_bundle(self._bundle.manifest), DOMAIN)

    @cached_property
    def _quantized(self) -> dict[str | None, bytes]:
        from prunus.timing.eight_bits import quantize  # noqa: PLC0415  # ONNX Runtime is optional

        size = self._bundle.manifest.image_size
        found: dict[str | None, bytes] = {None: quantize(self._dense, random_images(NUM_RANDOM, size))}
        return found | {domain: quantize(self._floats[domain], images) for domain, images in self._images.items()}


Built = Iterator[tuple[str | None, Callable[[int], Run]]]
BUILDERS: dict[str, Callable[[Rivals], Built]] = {
    ONNX_PRUNED: Rivals.pruned,
    TORCH_DENSE: Rivals.dense_in_torch,
    ONNX_DENSE: Rivals.dense,
    ONNX_INT8: Rivals.int8,
    OPENVINO_INT8: Rivals.openvino_int8,
    OPENVINO_BF16: Rivals.openvino_bf16,
}


def _loadable(models: Mapping[str | None, bytes], precision: str) -> Built:
    """Yield models in OpenVINO, after a check that it can load them: it knows fewer quantized networks."""
    for domain, model in models.items():
        openvino_run(model, 1, precision)
        yield domain, partial(openvino_run, model, precision=precision)


def random_images(count: int, size: int) -> Floats:
    """Return normal noise in the form of images."""
    return np.random.default_rng(0).standard_normal((count, 3, size, size)).astype(np.float32)


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
