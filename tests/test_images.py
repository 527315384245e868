from __future__ import annotations

import io
import struct
import threading
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from prunus import images
from prunus.errors import DataError
from prunus.images import Preprocess, crop_windows, image_size, read_image

LOSSY = {"JPEG", "WEBP"}
ORIENTATION = 0x0112  # the EXIF tag


def encode(image: Image.Image, format_name: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format_name, **options)
    return buffer.getvalue()


def pixels(content: bytes) -> npt.NDArray[np.int64]:
    image = read_image(content)
    assert image.mode == "RGB"
    return np.asarray(image).astype(np.int64)


def png_header(width: int, height: int) -> bytes:
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return start + struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))


def preprocess(size: int = 4, resize: int = 4, fit: str = "crop") -> Preprocess:
    return Preprocess.model_validate(
        {"size": size, "resize": resize, "fit": fit, "mean": (0.48, 0.45, 0.4), "std": (0.28, 0.27, 0.26)}
    )


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP", "BMP", "PPM", "TIFF", "GIF"])
def test_every_supported_format_gives_back_its_colour(format_name: str) -> None:
    found = pixels(encode(Image.new("RGB", (16, 12), (200, 30, 90)), format_name))
    assert found.shape == (12, 16, 3)
    assert np.abs(found - (200, 30, 90)).max() <= (8 if format_name in LOSSY else 0)


def test_a_grey_image_has_three_equal_channels() -> None:
    assert pixels(encode(Image.new("L", (2, 2), 77)))[0, 0].tolist() == [77, 77, 77]


def test_a_one_bit_image_is_black_and_white() -> None:
    image = Image.new("1", (2, 1))
    image.putpixel((1, 0), 1)
    assert pixels(encode(image)).tolist() == [[[0, 0, 0], [255, 255, 255]]]


def test_a_palette_image_shows_its_palette_colours() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    assert pixels(encode(image)).tolist() == [[[10, 20, 30], [40, 50, 60]]]


def test_the_transparent_colour_of_a_palette_becomes_white() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    assert pixels(encode(image, transparency=0)).tolist() == [[[255, 255, 255], [40, 50, 60]]]


def test_the_transparent_colour_of_an_rgb_image_becomes_white() -> None:
    image = Image.new("RGB", (2, 1), (1, 2, 3))
    image.putpixel((1, 0), (9, 8, 7))
    assert pixels(encode(image, transparency=(1, 2, 3))).tolist() == [[[255, 255, 255], [9, 8, 7]]]


def test_alpha_is_blended_with_white() -> None:
    image = Image.new("RGBA", (3, 1), (200, 0, 100, 255))
    image.putpixel((1, 0), (200, 0, 100, 128))
    image.putpixel((2, 0), (200, 0, 100, 0))
    half = [255 + (value - 255) * 128 / 255 for value in (200, 0, 100)]
    found = pixels(encode(image))[0]
    assert found[0].tolist() == [200, 0, 100]
    assert np.abs(found[1] - half).max() <= 1
    assert found[2].tolist() == [255, 255, 255]


def test_grey_with_alpha_is_blended_with_white() -> None:
    image = Image.new("LA", (2, 1), (100, 255))
    image.putpixel((1, 0), (100, 0))
    assert pixels(encode(image)).tolist() == [[[100] * 3, [255] * 3]]


@pytest.mark.parametrize(("ink", "colour"), [((255, 0, 0, 0), (0, 255, 255)), ((0, 255, 255, 0), (255, 0, 0))])
def test_a_cmyk_jpeg_is_not_inverted(ink: tuple[int, int, int, int], colour: tuple[int, int, int]) -> None:
    assert np.abs(pixels(encode(Image.new("CMYK", (8, 8), ink), "JPEG")) - colour).max() <= 8


def test_a_16_bit_png_is_scaled_and_not_clipped() -> None:
    levels = np.array([[0, 257, 300, 128 * 257, 65535]], dtype=np.uint16)
    assert pixels(encode(Image.fromarray(levels)))[0, :, 0].tolist() == [0, 1, 1, 128, 255]


def test_a_16_bit_pgm_is_scaled_and_not_clipped() -> None:
    content = b"P5\n4 1\n65535\n" + struct.pack(">4H", 0, 257, 128 * 257, 65535)
    assert pixels(content)[0, :, 1].tolist() == [0, 1, 128, 255]


def test_a_10_bit_pgm_is_scaled_by_its_own_largest_value() -> None:
    assert pixels(b"P5\n2 1\n1023\n" + struct.pack(">2H", 0, 1023))[0, :, 2].tolist() == [0, 255]


def test_floating_point_pixels_are_refused() -> None:
    with pytest.raises(DataError, match="floating-point numbers, which have no fixed range; save it as PNG"):
        read_image(b"Pf\n2 1\n-1.0\n" + struct.pack("<2f", 0.5, 200.0))


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "P", "L", "I;16", "1", "CMYK"])
def test_an_image_that_is_converted_in_tiles_has_the_same_pixels(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    colours = Image.fromarray(rng.integers(0, 256, (23, 17, 4), np.uint8), "RGBA")
    image = colours.convert("RGB").convert("P") if mode == "P" else colours.convert(mode)
    if mode == "I;16":
        image = Image.fromarray(rng.integers(0, 65536, (23, 17), np.uint16))
    if mode == "P":
        image.info["transparency"] = 3
    for orientation in range(1, 9):
        image.getexif()[ORIENTATION] = orientation
        monkeypatch.setattr(images, "TILE_PIXELS", 1000)
        whole = read_image(image)
        upright = ImageOps.exif_transpose(image)
        assert whole.size == upright.size
        if mode == "RGB":
            assert whole.tobytes() == upright.tobytes()
        for pixels_at_once in (1, 7, 50, 17 * 22):
            monkeypatch.setattr(images, "TILE_PIXELS", pixels_at_once)
            assert read_image(image).tobytes() == whole.tobytes()


def test_exif_orientation_turns_the_image_upright() -> None:
    image = Image.new("RGB", (32, 16), (255, 0, 0))
    image.paste((0, 0, 255), (16, 0, 32, 16))
    exif = Image.Exif()
    exif[ORIENTATION] = 6  # the camera was held a quarter turn to the left: its left is our top
    found = pixels(encode(image, "JPEG", exif=exif.tobytes()))
    assert found.shape == (32, 16, 3)
    assert np.abs(found[2, 8] - (255, 0, 0)).max() < 32
    assert np.abs(found[29, 8] - (0, 0, 255)).max() < 32


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_a_damaged_exif_block_does_not_spoil_the_pixels() -> None:
    damaged = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0"  # one entry, cut off
    assert pixels(encode(Image.new("RGB", (8, 6), "white"), "JPEG", exif=damaged)).shape == (6, 8, 3)


def test_a_strange_exif_entry_spoils_neither_the_pixels_nor_the_orientation() -> None:
    orientation = struct.pack("<HHIHH", ORIENTATION, 3, 1, 6, 0)
    strange = struct.pack("<HHI4s", 0x011A, 2, 4, b"72\0\0")  # the resolution as text, where a fraction belongs
    exif = b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<H", 2) + orientation + strange + bytes(4)
    assert pixels(encode(Image.new("RGB", (8, 6), "white"), "JPEG", exif=exif)).shape == (8, 6, 3)


def test_an_image_that_is_already_open_is_decoded_too() -> None:
    assert np.asarray(read_image(Image.new("L", (1, 1), 9))).tolist() == [[[9, 9, 9]]]


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "x.png").touch()
    with pytest.raises(DataError, match=r"cannot read .*x\.png: it is empty \(0 bytes\)"):
        read_image(tmp_path / "x.png")


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP", "BMP", "PPM", "TIFF", "GIF"])
def test_a_truncated_file_is_refused_by_its_name(format_name: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    content = encode(Image.fromarray(noise), format_name)
    with pytest.raises(DataError, match=r"^cannot read half an image: "):
        read_image(content[: len(content) // 2], "half an image")


@pytest.mark.parametrize("content", [b"not an image", encode(Image.new("L", (2, 2)), "TGA")], ids=["text", "tga"])
def test_a_file_of_another_kind_is_refused_with_the_known_formats(content: bytes) -> None:
    with pytest.raises(DataError, match="none of JPEG, PNG, WebP, BMP, PPM, TIFF, GIF"):
        read_image(content)


def test_a_tiff_of_an_unusual_kind_is_refused_with_what_to_do() -> None:
    with pytest.raises(DataError, match="it is a TIFF of an unusual kind, such as 16 bits per colour; save it as PNG"):
        read_image(b"II*\0" + bytes(60))


@pytest.mark.parametrize("format_name", ["GIF", "TIFF", "WEBP"])
def test_of_several_frames_or_pages_the_first_is_read(format_name: str) -> None:
    frames = [Image.new("RGB", (9, 7), colour) for colour in ((250, 0, 0), (0, 0, 250))]
    found = pixels(encode(frames[0], format_name, save_all=True, append_images=frames[1:]))
    assert np.abs(found - (250, 0, 0)).max() <= (8 if format_name in LOSSY else 0)


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_deflate"])
def test_a_tiff_is_turned_upright_once(compression: str) -> None:
    image = Image.new("RGB", (32, 16), (255, 0, 0))
    image.paste((0, 0, 255), (16, 0, 32, 16))
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    found = pixels(encode(image, "TIFF", exif=exif, compression=compression))
    assert found.shape == (32, 16, 3)
    assert (found[2, 8].tolist(), found[29, 8].tolist()) == ([255, 0, 0], [0, 0, 255])


def test_the_pixels_of_a_tiff_are_limited_by_its_header(monkeypatch: pytest.MonkeyPatch) -> None:
    content = encode(Image.new("L", (11, 10)), "TIFF")
    monkeypatch.setattr(images, "MAX_PIXELS", 100)
    with pytest.raises(DataError, match="it has 11 x 10 pixels; at most 100 are read"):
        read_image(content)


def test_the_size_of_an_image_is_read_from_its_header() -> None:
    assert image_size(encode(Image.new("L", (11, 10)), "GIF")) == (11, 10)
    with pytest.raises(DataError, match="cannot read the image: it is none of"):
        image_size(b"no image")


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no image .*gone\.png"):
        read_image(tmp_path / "gone.png")


def test_an_image_above_the_pixel_limit_is_refused_and_one_at_the_limit_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(images, "MAX_PIXELS", 100)
    assert read_image(encode(Image.new("L", (10, 10)))).size == (10, 10)
    with pytest.raises(DataError, match=r"11 x 10 pixels; at most 100 are read"):
        read_image(encode(Image.new("L", (11, 10))))


@pytest.mark.parametrize("side", [9_000, 100_000])
def test_a_header_that_claims_a_giant_image_is_refused_before_decoding(
    side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(image: Image.Image) -> None:
        raise AssertionError("the pixels were asked for")

    monkeypatch.setattr(ImageOps, "exif_transpose", decode)
    with pytest.raises(DataError, match="pixels"):
        read_image(png_header(side, side))


def test_decoding_in_two_threads_leaves_the_warning_filters_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    content, real_open = encode(Image.new("L", (2, 2))), Image.open
    both_inside, first_is_done = threading.Barrier(2), threading.Event()

    def overlapping_open(file: io.BytesIO, formats: tuple[str, ...]) -> Image.Image:
        if both_inside.wait(10) == 1:  # the last to come is the last to go
            first_is_done.wait(1)
        return real_open(file, formats=formats)

    def read(_: int) -> None:
        read_image(content)
        first_is_done.set()

    monkeypatch.setattr(Image, "open", overlapping_open)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(read, range(2)))
        assert list(warnings.filters) == before


@pytest.mark.parametrize("turned", [False, True])
def test_crop_keeps_the_middle_square_and_nothing_else(turned: bool) -> None:
    image = three_squares().transpose(Image.Transpose.ROTATE_90) if turned else three_squares()
    assert (preprocess(fit="crop").store(image) == np.array([0, 255, 0]).reshape(3, 1, 1)).all()


def test_squash_keeps_the_whole_width_weighted_by_a_triangle() -> None:
    # three source columns for one: weights 1/3 2/3 1 2/3 1/3 around the centre of each target column, over their sum
    columns = np.array([[255, 0, 0], [85, 170, 0], [0, 170, 85], [0, 0, 255]])
    stored = preprocess(fit="squash").store(three_squares())
    assert stored.shape == (3, 4, 4)
    assert stored.dtype == np.uint8
    assert np.abs(stored.astype(np.int64).transpose(1, 2, 0) - columns).max() <= 1


def three_squares() -> Image.Image:
    image = Image.new("RGB", (12, 4), (255, 0, 0))
    image.paste((0, 255, 0), (4, 0, 8, 4))
    image.paste((0, 0, 255), (8, 0, 12, 4))
    return image


def test_the_test_crops_are_the_centre_then_the_corners_then_all_mirrored() -> None:
    five = [(1, 1), (0, 0), (0, 2), (2, 0), (2, 2)]
    assert crop_windows(10, 8, 1) == [(1, 1, False)]
    assert crop_windows(10, 8, 5) == [(*corner, False) for corner in five]
    assert crop_windows(10, 8, 10) == [(*corner, mirrored) for mirrored in (False, True) for corner in five]


@given(size=st.integers(1, 512), margin=st.integers(0, 128), count=st.sampled_from([1, 5, 10]))
def test_every_test_crop_lies_inside_the_image(size: int, margin: int, count: int) -> None:
    windows = crop_windows(size + margin, size, count)
    assert len(windows) == count
    for top, left, _ in windows:
        assert 0 <= top <= margin
        assert 0 <= left <= margin


def test_a_crop_is_the_window_and_its_mirror_image() -> None:
    stored = np.arange(2 * 3 * 4 * 4, dtype=np.uint8).reshape(2, 3, 4, 4)
    settings = preprocess(size=2)
    assert np.array_equal(settings.crop(stored, 1, 2, mirror=False), stored[:, :, 1:3, 2:4])
    assert np.array_equal(settings.crop(stored, 1, 2, mirror=True), stored[:, :, 1:3, [3, 2]])


def test_normalize_agrees_with_the_formula_in_double_precision() -> None:
    settings = preprocess(size=16, resize=16)
    levels = np.broadcast_to(np.arange(256, dtype=np.uint8).reshape(16, 16), (2, 3, 16, 16))
    found = settings.normalize(levels)
    assert found.dtype == np.float32
    for channel, (mean, std) in enumerate(zip(settings.mean, settings.std, strict=True)):
        expected = (np.arange(256, dtype=np.float64) / 255 - mean) / std
        np.testing.assert_allclose(found[1, channel].ravel(), expected, rtol=0, atol=2e-6)


def test_an_image_file_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_FILE_BYTES", 2**20)
    with pytest.raises(DataError, match="cannot read /dev/zero: it has more than 1,048,576 bytes"):
        read_image(Path("/dev/zero"))
