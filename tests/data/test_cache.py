"""The cache of decoded images: right, never stale, never half."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prunus import images as decoding
from prunus.config import DomainChoice
from prunus.data import loading
from prunus.data.layouts import open_domain
from prunus.data.loading import ImageSet, load_images
from prunus.errors import DataError, StorageError
from prunus.images import Preprocess

MakeDomain = Callable[..., Path]
PREPROCESS = Preprocess(size=8, resize=9, mean=(0, 0, 0), std=(1, 1, 1))


def _load(folder: Path, cache: Path | None, preprocess: Preprocess = PREPROCESS, skip_bad: bool = False) -> ImageSet:
    return load_images(open_domain(DomainChoice(name="d", path=str(folder))), "train", preprocess, skip_bad, cache)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all images decoded so far."""
    seen: list[str] = []
    original = decoding.read_image

    def counting(content: bytes, name: str = "") -> object:
        seen.append(name)
        return original(content, name)

    monkeypatch.setattr(loading, "read_image", counting)
    return seen


def test_cached_images_are_the_decoded_ones_and_are_decoded_once(
    make_domain: MakeDomain, tmp_path: Path, decoded: list[str]
) -> None:
    folder, cache = make_domain(train=6), tmp_path / "cache"
    plain = _load(folder, None)
    first = _load(folder, cache)
    count = len(decoded)
    second = _load(folder, cache)
    assert len(decoded) == count
    assert isinstance(second.images, np.memmap)
    for images in (first, second):
        assert np.array_equal(images.images, plain.images)
        assert np.array_equal(images.labels, plain.labels)
    assert first.fingerprint() == plain.fingerprint()


def test_a_changed_file_or_setting_is_decoded_anew(make_domain: MakeDomain, tmp_path: Path, decoded: list[str]) -> None:
    folder, cache = make_domain(train=6), tmp_path / "cache"
    before = _load(folder, cache)
    image = next(iter(sorted((folder / "train" / "a").glob("*.png"))))
    image.write_bytes((folder / "train" / "b" / image.name).read_bytes())
    os.utime(image, ns=(1, 1))
    assert not np.array_equal(_load(folder, cache).images, before.images)
    count = len(decoded)
    _load(folder, cache, PREPROCESS.model_copy(update={"fit": "squash"}))
    _load(folder, cache, PREPROCESS.model_copy(update={"resize": 12}))
    assert len(decoded) == 2 * count  # two loads before, two since


def test_a_split_with_bad_images_is_not_kept_so_that_mending_them_is_enough(
    make_domain: MakeDomain, tmp_path: Path
) -> None:
    folder, cache = make_domain(train=6), tmp_path / "cache"
    broken = folder / "train" / "a" / "1.png"
    content = broken.read_bytes()
    broken.write_bytes(b"")
    with pytest.raises(DataError, match=r"train/a/1.png .*0 bytes"):
        _load(folder, cache)
    kept = _load(folder, cache, skip_bad=True)
    assert len(kept.skipped) == 1
    assert len(kept.images) == len(kept.labels)
    assert np.array_equal(kept.images, _load(folder, None, skip_bad=True).images)
    assert list(cache.iterdir()) == []
    broken.write_bytes(content)
    assert np.array_equal(_load(folder, cache).images, _load(folder, None).images)


def test_equal_names_sizes_and_times_in_another_folder_are_other_images(
    make_domain: MakeDomain, tmp_path: Path
) -> None:
    folders = [make_domain(name, train=6) for name in ("red", "blue")]
    for folder, colour in zip(folders, ("red", "blue"), strict=True):
        for file in folder.rglob("*.png"):
            Image.new("RGB", (8, 8), colour).save(file, "BMP")
            os.utime(file, ns=(0, 0))
    red, blue = (_load(folder, tmp_path / "cache").images for folder in folders)
    assert red[:, 0].min() == 255
    assert blue[:, 2].min() == 255


def test_an_edit_that_keeps_size_and_time_is_noticed(make_domain: MakeDomain, tmp_path: Path) -> None:
    folder, cache = make_domain(train=6), tmp_path / "cache"
    file = folder / "train" / "a" / "0.png"
    for colour in ("red", "blue"):
        Image.new("RGB", (8, 8), colour).save(file, "BMP")
        os.utime(file, ns=(0, 0))
        assert np.array_equal(_load(folder, cache).images, _load(folder, None).images)


def test_threads_of_one_process_may_make_the_same_entry_at_once(make_domain: MakeDomain, tmp_path: Path) -> None:
    folder = make_domain(train=20)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: _load(folder, tmp_path / "cache").fingerprint(), range(4)))
    assert set(found) == {_load(folder, None).fingerprint()}


def test_damaged_entries_are_made_again(make_domain: MakeDomain, tmp_path: Path) -> None:
    folder, cache = make_domain(train=6), tmp_path / "cache"
    expected = np.array(_load(folder, cache).images)
    for damage in (b"x", b"", (next(cache.iterdir()) / "images.npy").read_bytes()[:-5]):
        (next(cache.iterdir()) / "images.npy").write_bytes(damage)
        assert np.array_equal(_load(folder, cache).images, expected)


def test_a_flipped_bit_in_an_entry_is_noticed_once_and_the_images_are_decoded_again(
    make_domain: MakeDomain, tmp_path: Path, decoded: list[str]
) -> None:
    folder, cache = make_domain(train=6), tmp_path / "cache"
    first = _load(folder, cache)
    expected = np.array(first.images)
    assert not first.was_damaged
    (entry,) = cache.iterdir()
    for name in ("images.npy", "images.sha256"):
        content = bytearray((entry / name).read_bytes())
        content[-7] ^= 4
        (entry / name).write_bytes(content)
        count = len(decoded)
        again = _load(folder, cache)
        assert again.was_damaged
        assert len(decoded) == count + len(expected)
        assert np.array_equal(again.images, expected)
        assert not _load(folder, cache).was_damaged
        assert len(decoded) == count + len(expected)
    assert list(cache.iterdir()) == [entry]


def test_an_entry_of_an_earlier_version_is_decoded_again_without_a_word(
    make_domain: MakeDomain, tmp_path: Path, decoded: list[str]
) -> None:
    folder, cache = make_domain(train=6), tmp_path / "cache"
    count = len(_load(folder, cache))
    (cache / next(cache.iterdir()).name / "images.sha256").unlink()
    assert not _load(folder, cache).was_damaged
    assert len(decoded) == 2 * count


def test_the_checksum_of_an_entry_is_that_of_its_pixels_part_by_part(
    make_domain: MakeDomain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prunus.data.cache.HASHED_BYTES", 4 * 3 * 9 * 9)  # four images
    images = _load(make_domain(train=6), tmp_path / "cache").images
    assert len(images) == 10
    parts = [hashlib.sha256(images[start : start + 4].tobytes()).digest() for start in (0, 4, 8)]
    stored = next((tmp_path / "cache").rglob("images.sha256")).read_text()
    assert stored == hashlib.sha256(b"".join(parts)).hexdigest()


def test_statistics_are_those_of_the_pixels_and_are_kept(
    make_domain: MakeDomain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = _load(make_domain(train=6), tmp_path / "cache")
    mean, std = images.statistics()
    pixels = np.asarray(images.images, dtype=np.float64).transpose(1, 0, 2, 3).reshape(3, -1) / 255
    assert mean == pytest.approx(pixels.mean(1), abs=1e-5)
    assert std == pytest.approx(pixels.std(1), abs=1e-5)
    file = next((tmp_path / "cache").rglob("statistics.json"))
    whole = file.read_text()
    edited = whole.replace(str(mean[0]), str(mean[0] + 1))
    assert edited != whole
    for damage in ("{}", "[", '{"mean": 1}', edited, whole.partition("\n")[2]):
        file.write_text(damage)
        assert images.statistics() == (mean, std)
    file.unlink()
    assert images.statistics() == (mean, std)
    monkeypatch.setattr(ImageSet, "_statistics", lambda self: pytest.fail("computed again"))
    assert images.statistics() == (mean, std)


MAKING = """
import sys, time
from pathlib import Path
from prunus.data import loading
from prunus.config import DomainChoice
from prunus.data.layouts import open_domain
from prunus import images as decoding
from prunus.images import Preprocess
folder, cache, slow = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
original = loading.read_image
def slowly(content, name=""):
    time.sleep(slow)
    return original(content, name)
loading.read_image = slowly
preprocess = Preprocess(size=8, resize=9, mean=(0, 0, 0), std=(1, 1, 1))
images = loading.load_images(open_domain(DomainChoice(name="d", path=str(folder))), "train", preprocess, False, cache)
print(images.fingerprint())
"""


def _start(folder: Path, cache: Path, slow: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", MAKING, str(folder), str(cache), str(slow)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_process_killed_while_writing_leaves_nothing_that_is_trusted(make_domain: MakeDomain, tmp_path: Path) -> None:
    folder, cache = make_domain(train=20), tmp_path / "cache"
    process = _start(folder, cache, slow=1.0)
    began = time.monotonic()
    while not list(cache.glob(".*.tmp/images.npy")) and time.monotonic() - began < 60:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert [path.name for path in cache.iterdir() if not path.name.startswith(".")] == []
    assert list(cache.glob(".*.tmp")) != []
    assert np.array_equal(_load(folder, cache).images, _load(folder, None).images)
    assert list(cache.glob(".*.tmp")) == []


def test_two_processes_that_make_the_same_entry_both_get_a_whole_one(make_domain: MakeDomain, tmp_path: Path) -> None:
    folder, cache = make_domain(train=20), tmp_path / "cache"
    processes = [_start(folder, cache, slow=0.05) for _ in range(2)]
    outputs = [process.communicate()[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert set(outputs) == {_load(folder, None).fingerprint()}
    assert len(list(cache.iterdir())) == 1


def test_a_full_disk_is_one_clear_error(
    make_domain: MakeDomain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageError, match=r"No space left on device; .* with the argument use_cache=False"):
        _load(make_domain(), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
