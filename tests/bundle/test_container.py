"""Files that are not safetensors, or whose parts do not match the header, are refused."""

import json
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from prunus.bundle.bundle import Bundle
from prunus.bundle.container import header_text, parse_json, read_container
from prunus.bundle.file import read_bundle, write_bundle
from prunus.errors import BundleError
from tests.makers.sealed_files import file_header, seal


@pytest.mark.parametrize("name", ["kernels", "index", "masks", "norms", "heads", "shared"])
def test_a_missing_or_misshapen_part_is_named(bundle: Bundle, tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    header, arrays = file_header(path), load(path.read_bytes())
    for replaced in (None, np.zeros(77, dtype=arrays[name].dtype), arrays[name].astype(np.float64)):
        changed = {k: v for k, v in arrays.items() if k != name} | ({} if replaced is None else {name: replaced})
        seal(path, header, changed)
        with pytest.raises(BundleError, match=r"its part '\w+' is .*, but should be"):
            read_bundle(path)


def test_parts_that_overlap_leave_holes_or_change_places_are_refused(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "m.prunus"
    write_bundle(path, bundle)
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    container, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    offsets_of = {name: entry["data_offsets"] for name, entry in container.items() if name != "__metadata__"}
    begin, end = offsets_of["kernels"]
    for name, offsets, rest in (
        ("kernels", [begin, end + 4], data),
        ("kernels", [begin + 1, end + 1], data),
        ("kernels", offsets_of["norms"], data),
        ("masks", [-1, 3], data),
        ("masks", [True, 2], data),
        ("masks", "0", data),
        ("masks", offsets_of["masks"], data + b"x"),
        ("masks", offsets_of["masks"], data[:-1]),
        ("extra", [len(data), len(data)], data),
        ("EXTRA", [len(data), len(data)], data),  # names on both sides of "__metadata__"
    ):
        entry = container.get(name, {"dtype": "U8", "shape": [0]}) | {"data_offsets": offsets}
        text = json.dumps(container | {name: entry}).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + rest)
        with pytest.raises(BundleError, match=r"its part|bytes of data"):
            read_bundle(path)


def _container(content: bytes) -> tuple[BytesIO, int]:
    whole = len(content).to_bytes(8, "little") + content
    return BytesIO(whole), len(whole)


def test_a_header_has_at_most_eight_mebibytes() -> None:
    largest = b"{}".ljust(2**23)
    assert read_container(*_container(largest)) == {}
    with pytest.raises(ValueError, match="its first 8 bytes are not the length of a header"):
        read_container(*_container(largest + b" "))


def test_a_header_has_a_limited_number_of_values() -> None:
    """Each list counts twice, for its bracket and for its comma; the object and its list for two more."""
    largest = b'{"a":[%s]}' % b"[],".join([b""] * 2**18)[:-1]
    assert len(read_container(*_container(largest))["a"]) == 2**18 - 1
    with pytest.raises(BundleError, match="its header has 524289 values; at most 524288 are allowed"):
        read_container(*_container(largest.replace(b"[[]", b"[[0,[]]")))


def test_a_file_that_ends_within_its_first_bytes_is_refused() -> None:
    for length in (1, 7):
        with pytest.raises(ValueError, match="its first 8 bytes are not the length of a header"):
            read_container(BytesIO(bytes(length)), length)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "its first 8 bytes are not the length of a header"),
        (b"\x05\0\0\0\0\0\0\0{}", "it ends before the end of its header"),
        (b"\x02\0\0\0\0\0\0\0[]", "its header is not a JSON object"),
    ],
)
def test_a_file_that_is_not_safetensors_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_container(BytesIO(content), len(content))


def test_only_a_single_text_under_our_key_is_our_header() -> None:
    assert header_text({"__metadata__": {"prunus": "{}"}}) == "{}"
    foreign: tuple[object, ...] = (None, [], {}, {"prunus": 3}, {"prunus": "{}", "more": ""}, {"other": "{}"})
    for metadata in foreign:
        assert header_text({"__metadata__": metadata}) is None


def test_a_repeated_key_is_refused_at_any_depth() -> None:
    assert parse_json('{"a": {"b": 1}}') == {"a": {"b": 1}}
    with pytest.raises(BundleError, match="its header contains a key twice"):
        parse_json('{"a": {"b": 1, "b": 2}}')
