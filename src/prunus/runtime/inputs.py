"""The kinds of images that `Predictor.predict` takes, each turned into an RGB image.

Legend: N = images, C = channels, H and W = height and width.
"""

import io
import os
import reprlib
import sys
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from PIL import Image

from prunus.errors import DataError
from prunus.images import MAX_FILE_BYTES, read_image

CHANNELS = {0: (1, 3), 2: (1, 3, 4)}  # axis of the channels -> how many there may be
SHAPES = "(H, W), (H, W, 3), (3, H, W), (N, H, W, 3) or (N, 3, H, W)"


class ImageFile(Protocol):
    """A file that was opened for reading bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes."""


class Tensor(Protocol):
    """A torch tensor, as far as this room knows it: torch is never imported here."""

    def detach(self) -> Any:  # noqa: ANN401  # torch is not imported
        """Return the tensor without its history."""


Pixels: TypeAlias = npt.NDArray[np.generic]
ImageSource: TypeAlias = (
    str | os.PathLike[str] | bytes | bytearray | memoryview | ImageFile | Image.Image | Pixels | Tensor
)


def to_images(images: object) -> tuple[list[Image.Image], bool]:
    """Return RGB images, and whether the caller passed several: a list, a tuple or an array with four axes."""
    if isinstance(images, (list, tuple)):
        return [_one_image(image) for image in images], True
    pixels = _pixels(images)
    if pixels is not None and pixels.ndim == 4:
        is_tensor = not isinstance(images, np.ndarray)
        return [_from_pixels(image, is_tensor) for image in pixels], True
    return [_one_image(images)], False


def _one_image(image: object) -> Image.Image:
    pixels = _pixels(image)
    if pixels is not None:
        return _from_pixels(pixels, not isinstance(image, np.ndarray))
    if isinstance(image, (str, os.PathLike)):
        return read_image(Path(os.fspath(image)))
    if isinstance(image, (bytes, bytearray, memoryview)):
        return read_image(bytes(image))
    if isinstance(image, Image.Image):
        return read_image(image)
    if hasattr(image, "read"):
        return _from_file(cast("ImageFile", image))
    raise DataError(
        "an image must be a path, the bytes of an image file, an open file, a Pillow image, an array or a torch "
        f"tensor; got {reprlib.repr(image)}"
    )


def _from_file(file: ImageFile) -> Image.Image:
    name = str(getattr(file, "name", ""))
    if isinstance(file, io.TextIOBase):
        raise DataError(f"{name or 'the image'} was opened as text; open it with open(path, 'rb')")
    try:
        content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # closed, or opened for writing
        raise DataError(f"cannot read {name or 'the image'}: {error}") from error
    if len(content) > MAX_FILE_BYTES:
        raise DataError(f"cannot read {name or 'the image'}: it has more than {MAX_FILE_BYTES:,} bytes")
    return read_image(content, name)


def _pixels(image: object) -> Pixels | None:
    """Return the numbers of an array or tensor; None for everything else."""
    if isinstance(image, np.ndarray):
        return image
    torch = sys.modules.get("torch")  # whoever passes a tensor has imported it
    if torch is None or not isinstance(image, torch.Tensor):
        return None
    tensor = image.detach().cpu()
    # numpy has no bfloat16
    return cast("Pixels", (tensor.float() if tensor.is_floating_point() else tensor).numpy())


def _from_pixels(pixels: Pixels, is_tensor: bool) -> Image.Image:
    """Convert (H, W), (H, W, C) or (C, H, W); if both fit, an array is (H, W, C) and a tensor (C, H, W)."""
    is_byte = pixels.dtype == np.uint8
    fitting = [axis for axis, counts in CHANNELS.items() if pixels.ndim == 3 and pixels.shape[axis] in counts]
    if (not is_byte and pixels.dtype.kind != "f") or pixels.size == 0 or (pixels.ndim != 2 and not fitting):
        raise DataError(
            f"an image array must be {SHAPES}, with floats from 0 to 1 or uint8, got {pixels.shape} {pixels.dtype}"
        )
    if pixels.ndim == 3:
        axis = fitting[0] if is_tensor else fitting[-1]
        pixels = np.moveaxis(pixels, axis, 2)
        pixels = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    return read_image(Image.fromarray(np.ascontiguousarray(pixels if is_byte else _to_bytes(pixels))))


def _to_bytes(pixels: Pixels) -> npt.NDArray[np.uint8]:
    values = pixels.astype(np.float64)
    least, most = float(values.min()), float(values.max())
    if not (least >= 0 and most <= 1):  # also refuses NaN
        raise DataError(
            f"floating-point images must lie between 0 and 1, got {least:.3g} to {most:.3g}; divide values up to 255 "
            "by 255, and pass images that are already normalized to Predictor.logits"
        )
    return np.rint(values * 255).astype(np.uint8)
