"""Write a model file as ONNX models, and check their logits before keeping them."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prunus.arrays import DType, Floats
from prunus.bundle.bundle import Bundle
from prunus.errors import BundleError, MissingExtraError
from prunus.files import storage_error, temporary_beside, write_json
from prunus.onnx.coded_check import NAMES, CodedCheck, logits_error
from prunus.onnx.coded_network import CodedNetwork, common_network, domain_network
from prunus.onnx.floats import as_float32
from prunus.onnx.labels import describe_models
from prunus.onnx.model import common_model, domain_model
from prunus.runtime.predictor import Predictor

TOLERANCES: dict[DType, float] = {
    "float32": 1e-4,
    "bfloat16": 1e-4,
    "float16": 1e-2,
    "int8": 1e-4,  # without integer operations; those have a check of their own
}  # of the largest logit
LABELS = "labels.json"
NUM_CODED = 8  # images of each kind for the logits of an 8-bit file
PATCHES = 4  # along each side of an image
MIN_SHARED = 1024  # bytes; smaller tensors stay in the model


def export_domains(predictor: Predictor, folder: Path) -> list[Path]:
    """Write one model per domain, with one file of weights for all of them."""
    onnx, bundle = _import("onnx"), predictor.bundle
    with _staging(folder) as staging:
        models = {domain: domain_model(onnx, bundle, domain) for domain in bundle.domains}
        _share_weights(onnx, list(models.values()), staging)
        for domain, model in models.items():
            onnx.save_model(model, staging / f"{domain}.onnx")
        for domain in bundle.domains:
            coded = domain_network(bundle, domain)[0] if bundle.manifest.integers else None
            checking = _Checking(predictor, domain, staging / f"{domain}.onnx", lambda images: {"images": images})
            checking.compare(coded, 0)
        _write_labels(bundle, {domain: staging / f"{domain}.onnx" for domain in bundle.domains}, is_single=False)
    return [folder / f"{domain}.onnx" for domain in bundle.domains]


def export_single(predictor: Predictor, folder: Path) -> list[Path]:
    """Write one model for all domains, with the domain's number as a second input."""
    onnx, bundle = _import("onnx"), predictor.bundle
    with _staging(folder) as staging:
        onnx.save_model(common_model(onnx, bundle), staging / "model.onnx")
        coded = common_network(bundle) if bundle.manifest.integers else None
        for number, domain in enumerate(bundle.domains):
            checking = _Checking(predictor, domain, staging / "model.onnx", _with_number(number))
            checking.compare(coded, number)
        _write_labels(bundle, dict.fromkeys(bundle.domains, staging / "model.onnx"), is_single=True)
    return [folder / "model.onnx"]


def promise(bundle: Bundle) -> str:
    """Return what was checked, in words."""
    if bundle.manifest.integers:
        return (
            "every operation with 8-bit results is exact to about half a step, "
            "and the logits of random images are near those of the model file, but not equal to them"
        )
    return f"the logits are those of the model file to within {TOLERANCES[bundle.dtype]:g} of the largest"


def weights_file(model: Path) -> Path | None:
    """Return the file that holds the weights of an exported model; None if the model itself holds them."""
    tensors = _import("onnx").load(str(model), load_external_data=False).graph.initializer
    names = (entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location")
    return next((model.parent / name for name in names), None)


def _write_labels(bundle: Bundle, files: dict[str, Path], is_single: bool) -> None:
    labels = describe_models(bundle, files, is_single).model_dump(mode="json", exclude_none=True)
    write_json(files[bundle.domains[0]].parent / LABELS, labels)


def _with_number(number: int) -> Callable[[Floats], dict[str, Any]]:
    return lambda images: {"images": images, "domain": np.array(number, dtype=np.int64)}


def _share_weights(onnx: Any, models: list[Any], folder: Path) -> None:  # noqa: ANN401  # onnx is untyped
    """Move the larger tensors of several models into one file; equal bytes are stored once."""
    tensors = [tensor for model in models for tensor in model.graph.initializer]
    contents = [onnx.numpy_helper.to_array(tensor).tobytes() for tensor in tensors]
    # named after its content: models of other files in the folder keep their weights
    name = f"weights-{hashlib.sha256(b''.join(contents)).hexdigest()[:12]}.bin"
    offsets: dict[bytes, int] = {}
    with (folder / name).open("wb") as file:
        for tensor, content in zip(tensors, contents, strict=True):
            if len(content) < MIN_SHARED:
                continue
            if content not in offsets:
                file.write(b"\0" * (-file.tell() % 64))  # runtimes map the file and need it aligned
                offsets[content] = file.tell()
                file.write(content)
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            del tensor.external_data[:]
            for key, value in (("location", name), ("offset", offsets[content]), ("length", len(content))):
                tensor.external_data.add(key=key, value=str(value))


@dataclass(frozen=True)
class _Checking:
    """The check of one domain of a model.

    Args:
        feed: makes the inputs of the model from images.
    """

    predictor: Predictor
    domain: str
    path: Path
    feed: Callable[[Floats], dict[str, Any]]

    def compare(self, coded: CodedNetwork | None, index: int) -> None:
        """Compare a model with the predictor.

        Args:
            coded: the network of an 8-bit file.
            index: the domain's index in it.
        """
        session = self._load(str(self.path))
        if coded is None:
            self._compare_logits(session)
        else:
            self._compare_codes(coded, index)
            self._compare_coded_logits(session)

    def _compare_logits(self, session: Any) -> None:  # noqa: ANN401  # onnxruntime is untyped
        """Compare logits with those of the predictor, for one image and for several."""
        dtype, classes = self.predictor.bundle.dtype, len(self.predictor.classes[self.domain])
        for count in (1, 3):
            images = self._images(count)
            expected = self.predictor.logits(images, self.domain)
            logits = session.run(None, self.feed(images))[0][:, :classes]
            error = float(np.abs(logits - expected).max()) / max(float(np.abs(expected).max()), 1e-6)
            if not error <= TOLERANCES[dtype]:
                raise self._refusal(
                    f"the logits of ONNX Runtime for {self.domain!r} differ by {error:.1e} of the largest logit"
                )

    def _compare_coded_logits(self, session: Any) -> None:  # noqa: ANN401
        """Compare logits with those of an 8-bit file, for noise and for large patches of colour."""
        images = np.concatenate([self._images(NUM_CODED), self._patches(NUM_CODED)])
        expected = self.predictor.logits(images, self.domain)
        floats = domain_model(_import("onnx"), as_float32(self.predictor.bundle), self.domain).SerializeToString()
        without_codes = self._load(floats).run(None, {"images": images})[0]
        logits = session.run(None, self.feed(images))[0][:, : expected.shape[1]]
        if not logits_error(logits, expected, without_codes) <= 1:
            error = float(np.abs(logits - expected).max()) / max(float(np.abs(expected).max()), 1e-6)
            raise self._refusal(
                f"the logits of ONNX Runtime for {self.domain!r} differ by up to {error:.1e} of the largest logit, "
                "which is more than rounding explains"
            )

    def _compare_codes(self, coded: CodedNetwork, index: int) -> None:
        """Compare every operation with exact numbers."""
        images, onnx = self._images(1), _import("onnx")
        model = onnx.load(str(self.path))
        names = [name for node in model.graph.node for name in node.output if name.startswith(NAMES)]
        for name in names:
            kind = onnx.TensorProto.UINT8 if name.startswith(NAMES[0]) else onnx.TensorProto.FLOAT
            model.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
        found = self._load(model.SerializeToString()).run(["logits", *names], self.feed(images))
        values = dict(zip(["logits", *names], found, strict=True)) | {"images": images}
        for name, error in CodedCheck(coded, index, values).errors():
            if not error <= 1:
                raise self._refusal(
                    f"ONNX Runtime computes {name} of {self.domain!r} with {error:.3g} times the error that is allowed"
                )

    def _images(self, count: int) -> Floats:
        size = self.predictor.image_size
        return np.random.default_rng(count).standard_normal((count, 3, size, size)).astype(np.float32)

    def _patches(self, count: int) -> Floats:
        size = self.predictor.image_size
        colours = np.random.default_rng(count).standard_normal((count, 3, PATCHES, PATCHES)).astype(np.float32)
        row = np.arange(size) * PATCHES // size
        return colours[:, :, row[:, None], row]

    def _load(self, model: str | bytes) -> Any:  # noqa: ANN401  # onnxruntime is untyped
        runtime = _import("onnxruntime")
        options = runtime.SessionOptions()
        options.log_severity_level = 3  # errors only, which are raised
        try:
            return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as reason:  # ONNX Runtime raises dozens of types
            raise BundleError(
                f"ONNX Runtime cannot load the model of {self.domain!r}: {reason}; nothing was written; "
                "try another version"
            ) from reason

    def _refusal(self, problem: str) -> BundleError:
        return BundleError(f"{problem}; nothing was written; please report this model")


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, whose files are moved to `folder` at the end; after an error, nothing is left."""
    if folder.is_file():
        raise BundleError(f"{folder} is a file; name a folder for the models")
    is_new = not folder.exists()
    staging = temporary_beside(folder / "onnx")  # inside the folder, and thus on the same disk
    try:
        staging.mkdir(parents=True)
        yield staging
        for file in staging.iterdir():
            file.replace(folder / file.name)
    except OSError as error:
        raise storage_error(folder, error) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        if is_new:
            with suppress(OSError):  # it now holds files
                folder.rmdir()


def _import(name: str) -> Any:  # noqa: ANN401  # optional packages are untyped
    try:
        return __import__(name)
    except ImportError:
        raise MissingExtraError(name, "onnx", "exporting to ONNX") from None
