"""ONNX models of a model file, checked against it before they are kept."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from prunus.arrays import Floats
from prunus.errors import BundleError, MissingExtraError
from prunus.files import storage_error, temporary_beside
from prunus.onnx.model import common_model, domain_model
from prunus.runtime.predictor import Predictor

TOLERANCE = 1e-4  # of the largest logit
SMALLEST_SHARED = 1024  # bytes; smaller tensors stay in the model


def export_domains(predictor: Predictor, folder: Path) -> list[Path]:
    """Write one model per domain, with one file of weights for all of them."""
    onnx, bundle = _import("onnx"), predictor.bundle
    with _made_aside(folder) as aside:
        models = {domain: domain_model(onnx, bundle, domain) for domain in bundle.domains}
        # a name of its own: models of another file that lie in the folder keep their weights
        shared = _SharedWeights(aside / f"weights-{_fingerprint(onnx, list(models.values()))}.bin")
        for domain, model in models.items():
            shared.take(onnx, model)
            onnx.save_model(model, aside / f"{domain}.onnx")
        shared.close()
        for domain in bundle.domains:
            _check(aside / f"{domain}.onnx", predictor, domain, lambda images: {"images": images})
    return [folder / f"{domain}.onnx" for domain in bundle.domains]


def export_single(predictor: Predictor, folder: Path) -> list[Path]:
    """Write one model for all domains, with the domain's number as a second input."""
    onnx, bundle = _import("onnx"), predictor.bundle
    with _made_aside(folder) as aside:
        onnx.save_model(common_model(onnx, bundle), aside / "model.onnx")
        for number, domain in enumerate(bundle.domains):
            _check(aside / "model.onnx", predictor, domain, _with_number(number))
    return [folder / "model.onnx"]


def weights_file(model: Path) -> Path | None:
    """Find the file that a written model has its weights in, if it is another one."""
    tensors = _import("onnx").load(str(model), load_external_data=False).graph.initializer
    places = (entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location")
    return next((model.parent / place for place in places), None)


def _with_number(number: int) -> Callable[[Floats], dict[str, Any]]:
    return lambda images: {"images": images, "domain": np.array(number, dtype=np.int64)}


def _fingerprint(onnx: Any, models: list[Any]) -> str:  # noqa: ANN401  # onnx is untyped
    digest = hashlib.sha256()
    for model in models:
        for tensor in model.graph.initializer:
            digest.update(onnx.numpy_helper.to_array(tensor).tobytes())
    return digest.hexdigest()[:12]


class _SharedWeights:
    """One file of weights beside several models; equal bytes are kept once."""

    def __init__(self, path: Path) -> None:
        self._name, self._file = path.name, path.open("wb")
        self._places: dict[str, tuple[int, int]] = {}

    def take(self, onnx: Any, model: Any) -> None:  # noqa: ANN401  # onnx is untyped
        """Move a model's larger tensors into the file."""
        for tensor in model.graph.initializer:
            raw = onnx.numpy_helper.to_array(tensor).tobytes()
            if len(raw) < SMALLEST_SHARED:
                continue
            key = hashlib.sha256(raw).hexdigest()
            if key not in self._places:
                self._file.write(b"\0" * (-self._file.tell() % 64))  # runtimes map the file and want it aligned
                self._places[key] = (self._file.tell(), len(raw))
                self._file.write(raw)
            offset, length = self._places[key]
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            del tensor.external_data[:]
            for name, value in (("location", self._name), ("offset", str(offset)), ("length", str(length))):
                tensor.external_data.add(key=name, value=value)

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


def _check(path: Path, predictor: Predictor, domain: str, feed: Callable[[Floats], dict[str, Any]]) -> None:
    """Compare a model's answers with ours, for one image and for several."""
    runtime, bundle = _import("onnxruntime"), predictor.bundle
    try:
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as reason:  # it has dozens of its own
        raise BundleError(
            f"ONNX Runtime cannot load the model of {domain!r}: {reason}; nothing was written"
        ) from reason
    size, classes = bundle.manifest.image_size, len(bundle.manifest.domains[domain].classes)
    for count in (1, 3):
        images = np.random.default_rng(count).standard_normal((count, 3, size, size)).astype(np.float32)
        expected = predictor.logits(images, domain)
        found = session.run(None, feed(images))[0][:, :classes]
        error = float(np.abs(found - expected).max()) / max(float(np.abs(expected).max()), 1e-6)
        if not error <= TOLERANCE:
            raise BundleError(f"ONNX Runtime answers differently for {domain!r} (by {error:.1e}); nothing was written")


class _made_aside:  # noqa: N801  # used as a function
    """Give a temporary folder whose files are moved to their place when all is well, and removed when not."""

    def __init__(self, folder: Path) -> None:
        if folder.is_file():
            raise BundleError(f"{folder} is a file; name a folder for the models")
        # inside: beside the folder may be another disk, or nothing at all where it is the root
        self._folder, self._aside, self._is_new = folder, temporary_beside(folder / "onnx"), not folder.exists()

    def __enter__(self) -> Path:
        try:
            self._aside.mkdir(parents=True)
        except OSError as error:
            raise storage_error(self._folder, error) from error
        return self._aside

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        try:
            if kind is None:
                for file in self._aside.iterdir():
                    file.replace(self._folder / file.name)
        except OSError as reason:
            raise storage_error(self._folder, reason) from reason
        finally:
            shutil.rmtree(self._aside, ignore_errors=True)
            if kind is not None and self._is_new:
                with contextlib.suppress(OSError):  # someone else may have put something there
                    self._folder.rmdir()
        if isinstance(error, OSError):
            raise storage_error(self._folder, error) from error


def _import(name: str) -> Any:  # noqa: ANN401  # optional packages are untyped
    try:
        return __import__(name)
    except ImportError:
        raise MissingExtraError(name, "onnx", "exporting to ONNX") from None
