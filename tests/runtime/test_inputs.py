"""Every kind of image that a predictor takes becomes the same RGB image."""

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from prunus.arrays import Bytes
from prunus.errors import DataError
from prunus.runtime.inputs import to_images

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)


def _png(pixels: Bytes = PIXELS) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


ONE: dict[str, Callable[[], object]] = {
    "bytes": _png,
    "bytearray": lambda: bytearray(_png()),
    "memoryview": lambda: memoryview(_png()),
    "file": lambda: io.BytesIO(_png()),
    "pillow": lambda: Image.fromarray(PIXELS),
    "array": lambda: PIXELS,
    "array of floats": lambda: PIXELS / 255,
    "array of float16": lambda: (PIXELS / 255).astype(np.float16),
    "array with channels first": lambda: PIXELS.transpose(2, 0, 1),
    "array with transparency": lambda: np.dstack([PIXELS, np.full((5, 7), 255, np.uint8)]),
    "tensor": lambda: torch.from_numpy(PIXELS.transpose(2, 0, 1).copy()),
    "tensor with channels last": lambda: torch.from_numpy(PIXELS),
    "tensor of floats": lambda: torch.from_numpy(PIXELS.transpose(2, 0, 1) / 255).requires_grad_(),
}
MANY: dict[str, Callable[[], object]] = {
    "list": lambda: [PIXELS, _png()],
    "tuple": lambda: (PIXELS, PIXELS / 255),
    "NHWC": lambda: np.stack([PIXELS, PIXELS]),
    "NCHW": lambda: np.stack([PIXELS, PIXELS]).transpose(0, 3, 1, 2),
    "floats": lambda: np.stack([PIXELS, PIXELS]).astype(np.float32) / 255,
    "tensor": lambda: torch.from_numpy(np.stack([PIXELS, PIXELS]).transpose(0, 3, 1, 2).copy()).float() / 255,
}


@pytest.mark.parametrize("kind", ONE)
def test_one_image_may_come_in_any_form(kind: str) -> None:
    (image,), are_many = to_images(ONE[kind]())
    assert not are_many
    np.testing.assert_array_equal(np.asarray(image), PIXELS)


@pytest.mark.parametrize("kind", MANY)
def test_several_images_may_come_in_any_form(kind: str) -> None:
    images, are_many = to_images(MANY[kind]())
    assert are_many
    assert len(images) == 2
    for image in images:
        np.testing.assert_array_equal(np.asarray(image), PIXELS)


@pytest.mark.parametrize("kind", [str, Path])
def test_an_image_may_be_a_path(tmp_path: Path, kind: type) -> None:
    (tmp_path / "a.png").write_bytes(_png())
    (image,), _ = to_images(kind(tmp_path / "a.png"))
    np.testing.assert_array_equal(np.asarray(image), PIXELS)


def test_bfloat16_tensors_are_read_to_their_precision() -> None:
    (image,), _ = to_images(torch.full((3, 4, 4), 0.5, dtype=torch.bfloat16))
    np.testing.assert_array_equal(np.asarray(image), np.full((4, 4, 3), 128))


def test_where_both_ends_are_three_arrays_end_with_channels_and_tensors_begin_with_them() -> None:
    cube = np.arange(36, dtype=np.uint8).reshape(3, 4, 3)
    np.testing.assert_array_equal(np.asarray(to_images(cube)[0][0]), cube)
    np.testing.assert_array_equal(np.asarray(to_images(torch.from_numpy(cube))[0][0]), cube.transpose(1, 2, 0))


def test_grey_arrays_have_two_axes_or_one_channel() -> None:
    grey = PIXELS[..., 0]
    for form in (grey, grey[..., None], grey[None], torch.from_numpy(grey.copy())):
        (image,), _ = to_images(form)
        np.testing.assert_array_equal(np.asarray(image), np.dstack([grey] * 3))


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "0 to 255 as floats": (lambda: np.full((4, 4, 3), 255.0), "between 0 and 1, got 255 to 255; divide .* by 255"),
    "normalized": (lambda: np.linspace(-2, 2, 48).reshape(4, 4, 3), "got -2 to 2; .* pass .* to Predictor.logits"),
    "not a number": (lambda: np.full((4, 4, 3), np.nan), "between 0 and 1, got nan to nan"),
    "whole numbers": (lambda: np.zeros((4, 4, 3), np.int64), r"or uint8, got \(4, 4, 3\) int64"),
    "five channels": (lambda: np.zeros((4, 4, 5), np.uint8), r"uint8, got \(4, 4, 5\) uint8"),
    "five axes": (lambda: np.zeros((1, 1, 4, 4, 3), np.uint8), r"uint8, got \(1, 1, 4, 4, 3\) uint8"),
    "no pixels": (lambda: np.zeros((0, 4, 3), np.uint8), r"uint8, got \(0, 4, 3\)"),
    "a text file": (lambda: io.StringIO("x"), r"was opened as text; open it with open\(path, 'rb'\)"),
    "an empty file": (lambda: io.BytesIO(b""), "cannot read the image: it is empty"),
    "an object": (lambda: {"a": 1}, "an image must be a path, .* or a torch tensor; got {'a': 1}"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_an_image_is_refused_with_what_to_do(name: str) -> None:
    make, message = WRONG[name]
    with pytest.raises(DataError, match=message):
        to_images(make())


def test_a_closed_file_and_a_file_too_large_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(_png())
    file = (tmp_path / "a.png").open("rb")
    file.close()
    with pytest.raises(DataError, match=r"cannot read .*a\.png: read of closed file"):
        to_images(file)
    monkeypatch.setattr("prunus.runtime.inputs.MAX_FILE_BYTES", 10)
    with pytest.raises(DataError, match="it has more than 10 bytes"):
        to_images(io.BytesIO(_png()))


def test_torch_is_not_imported() -> None:
    code = "import sys, numpy, prunus.runtime.inputs as inputs; inputs.to_images(numpy.zeros((4, 4, 3)))"
    code += "; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
