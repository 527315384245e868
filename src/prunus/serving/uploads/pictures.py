"""Open an uploaded file and decode it into a network input, or refuse it with a reason."""

import io
from http import HTTPStatus

from PIL import Image, ImageFile, UnidentifiedImageError
from PIL.WebPImagePlugin import WebPImageFile

from prunus.arrays import Bytes
from prunus.errors import DataError
from prunus.images import UPLOAD_FORMATS, Preprocess, crop_windows, read_image
from prunus.serving.refusals import Refusal
from prunus.serving.uploads.formats.chunks import strip_png
from prunus.serving.uploads.formats.scans import count_scans
from prunus.serving.uploads.formats.webp import canvas_pixels, decode_webp, lacked_memory
from prunus.serving.uploads.parsing import Upload

ANIMATED = ("PNG", "WEBP")  # a JPEG with several pictures is a photograph of a phone: the first one is used
MAX_SCANS = 100  # encoders write about 10
MAX_PASSES = 20  # over an image of the largest size; smaller ones may have more
COMPILED = ("jpeg", "zip", "raw")  # Pillow's decoders in C; all others are Python and take seconds for a small file
IN_PYTHON = {
    "bmp_rle": "a run-length encoded BMP",
    "ppm": "a PPM or PGM whose largest value is neither 255 nor 65535",
    "ppm_plain": "a plain-text PPM, PGM or PBM",
}
PNG_END = b"IEND\xaeB`\x82"  # name and checksum of the last chunk, which is always empty


def prepare(picture: Image.Image, label: str, preprocess: Preprocess) -> Bytes:
    """Decode one open file as a predictor does, to shape (3, S, S), without normalizing it."""
    try:
        image = read_image(decode_webp(picture) if isinstance(picture, WebPImageFile) else picture, label)
    except DataError as error:
        if isinstance(error.__cause__, MemoryError):
            raise MemoryError from None  # a new one: its own cause would form a cycle, which keeps the pixels in memory
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
    except (EOFError, OSError, ValueError) as error:
        raise _unreadable(label, error) from error
    window = crop_windows(preprocess.resize, preprocess.size, 1)[0]
    return preprocess.crop(preprocess.store(image), *window)


def open_picture(content: bytes, label: str, max_pixels: int) -> ImageFile.ImageFile:
    """Read the header of a file, and refuse files that should not be decoded."""
    if not content:
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"{label} is empty (0 bytes)")
    try:
        picture = Image.open(io.BytesIO(strip_png(content)), formats=UPLOAD_FORMATS)
        animated = picture.format in ANIMATED and bool(getattr(picture, "is_animated", False))
    except UnidentifiedImageError:
        raise _not_an_image(label) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _too_many_pixels(label, "far more pixels", max_pixels) from None
    except MemoryError:
        raise
    except Exception as error:  # Pillow's readers raise almost anything on damaged files
        if (pixels := canvas_pixels(content)) > max_pixels:
            raise _too_many_pixels(label, f"{pixels:,} pixels", max_pixels) from None
        if lacked_memory(error, content):
            raise MemoryError from None
        raise _unreadable(label, error) from error
    if picture.width * picture.height > max_pixels:
        raise _too_many_pixels(label, f"{picture.width} x {picture.height} pixels", max_pixels)
    if animated:
        raise Refusal(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"{label} is an animation; send one of its frames as a still image"
        )
    _check_decoder(picture, label)
    _check_scans(content, label, picture.width * picture.height, max_pixels)
    if picture.format == "PNG" and PNG_END not in content:
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"cannot read {label}: it is truncated")
    return picture


def label_of(number: int, count: int, upload: Upload) -> str:
    """Return the words that name an image in an error message."""
    image = "the image" if count == 1 else f"image {number + 1}"
    return f"{image} ({upload.name!r})" if upload.name else image


def _check_decoder(picture: ImageFile.ImageFile, label: str) -> None:
    """Refuse files that Pillow decodes in Python, and pixels that have no fixed range."""
    slow = [tile[0] for tile in picture.tile if tile[0] not in COMPILED]
    if slow or picture.mode == "F":
        kind = IN_PYTHON.get(slow[0], f"an image for the decoder {slow[0]!r}") if slow else "a PFM"
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"{label} is {kind}, which is not supported: save it as PNG")


def _check_scans(content: bytes, label: str, pixels: int, max_pixels: int) -> None:
    most = min(MAX_SCANS, MAX_PASSES * max_pixels // max(pixels, 1))
    scans = count_scans(content)
    if scans > most:
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"{label} has {scans:,} JPEG scans; at most {most} are allowed: save it again as a standard JPEG",
        )


def _unreadable(label: str, error: Exception) -> Refusal:
    reason = str(error) or type(error).__name__
    return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"cannot read {label}: {reason}")


def _not_an_image(label: str) -> Refusal:
    return Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"{label} is not a readable image; send JPEG, PNG, WebP or BMP")


def _too_many_pixels(label: str, got: str, max_pixels: int) -> Refusal:
    return Refusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{label} has {got}; at most {max_pixels:,} are allowed: make it smaller"
    )
