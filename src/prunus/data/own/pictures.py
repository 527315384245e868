"""Turn what datasets return for an image into a PIL image."""

import sys

import numpy as np
import numpy.typing as npt
from PIL import Image

from prunus.errors import DataError

MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # by the number of colours
EXPECTED = "expected a PIL image, an array (height, width, colours) or a tensor (colours, height, width)"
ROUNDING = 1e-4  # how far a number may be outside the range from 0 to 1


def as_picture(image: object, where: str) -> Image.Image:
    """Return a PIL image; arrays hold bytes, or numbers from 0 to 1."""
    if isinstance(image, Image.Image):
        return image
    torch = sys.modules.get("torch")  # not imported here: model files are measured without it
    if torch is not None and isinstance(image, torch.Tensor):
        tensor = image.detach().cpu()
        if tensor.ndim == 3 and tensor.shape[0] not in MODES:
            raise DataError(f"{where} is a tensor of shape {tuple(image.shape)}; {EXPECTED}")
        return _from_array(tensor.movedim(0, -1).numpy() if tensor.ndim == 3 else tensor.numpy(), where)
    if isinstance(image, np.ndarray):
        return _from_array(image, where)
    raise DataError(f"{where} is a {type(image).__name__}; {EXPECTED}")


def _from_array(pixels: npt.NDArray[np.generic], where: str) -> Image.Image:
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[-1] not in MODES) or 0 in pixels.shape:
        raise DataError(f"{where} is an array of shape {pixels.shape}; {EXPECTED}")
    flat = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[-1] == 1 else pixels
    return Image.fromarray(np.ascontiguousarray(_as_bytes(flat, where)))


def _as_bytes(pixels: npt.NDArray[np.generic], where: str) -> npt.NDArray[np.uint8]:
    if pixels.dtype == np.uint8:
        return pixels.astype(np.uint8, copy=False)
    if not np.issubdtype(pixels.dtype, np.floating):
        raise DataError(f"{where} has pixels of type {pixels.dtype}; expected uint8, or numbers from 0 to 1")
    numbers = pixels.astype(np.float64)
    low, high = float(numbers.min()), float(numbers.max())
    if not (low >= -ROUNDING and high <= 1 + ROUNDING):  # NaN is neither
        raise DataError(
            f"{where} has pixels from {low:.3g} to {high:.3g}; expected bytes, or numbers from 0 to 1: pass images "
            "before they are normalized"
        )
    return (numbers.clip(0, 1) * 255).round().astype(np.uint8)
