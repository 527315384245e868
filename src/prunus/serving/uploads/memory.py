"""How much memory an image takes while it is decoded, and how much all images together may take."""

from PIL import Image

from prunus.images import is_turned
from prunus.serving.uploads.formats.scans import count_scans

PICTURE_BYTES = 4  # for each pixel of a decoded picture, whatever its colours
COEFFICIENT_BYTES = 2  # for each pixel and colour of a JPEG with several scans, until the last one is read
MOST_BYTES = 12  # for each pixel: a WebP, which has three copies, or a progressive JPEG for print
SIDE_BYTES = 32  # for each row and column: pointers, and the weights of the resampling
TILE_BYTES = 6_000_000  # to convert a part of a picture
SPARE_BYTES = 16_000_000  # for the tiles, rows and columns of the largest pictures
BODY_COPIES = 3  # of a request: its body, its files, and a PNG without what is not needed
PHOTO_BYTES = 128_000_000  # of a request of the slow lane: a photograph of 15 megapixels that is turned upright


def expected_bytes(picture: Image.Image, content: bytes) -> int:
    """Return the most memory that an image of which only the header was read takes while it is decoded."""
    height, width = picture.height, picture.width
    return _pixel_bytes(picture, content) * height * width + SIDE_BYTES * (height + width) + TILE_BYTES


def largest_bytes(max_pixels: int) -> int:
    """Return the memory that an image may take; only pictures with absurdly long sides take more."""
    return MOST_BYTES * max_pixels + SPARE_BYTES


def image_budget(max_pixels: int, slow: int) -> int:
    """Return the memory for all images that are decoded at once: the largest one and a photograph always fit."""
    return max(largest_bytes(max_pixels) + PHOTO_BYTES, slow * PHOTO_BYTES)


def _pixel_bytes(picture: Image.Image, content: bytes) -> int:
    if picture.format == "WEBP":
        return MOST_BYTES
    # a PNG may tell after its pixels that it is turned
    converted = picture.mode != "RGB" or picture.format == "PNG" or is_turned(picture)
    coefficients = COEFFICIENT_BYTES * len(picture.getbands()) if count_scans(content) > 1 else 0
    return PICTURE_BYTES + max(PICTURE_BYTES if converted else 0, coefficients)
