"""A sealed file comes back; any change of it is an error."""

import hashlib
import json

import numpy as np
import pytest
from safetensors.numpy import load, save

from prunus.sealed import is_sealed, read_header, seal, sealable

TENSORS = {"weights": np.arange(6, dtype=np.float32)}
HEADER = {"name": '"sha256": "' + "0" * 64, "number": 3}  # a name that looks like a checksum


@pytest.fixture
def content() -> bytes:
    return seal(save(TENSORS, sealable(HEADER)))


def test_the_header_and_the_tensors_come_back(content: bytes) -> None:
    header = read_header(content)
    assert is_sealed(header)
    assert {key: header[key] for key in HEADER} == HEADER
    assert load(content)["weights"].tolist() == TENSORS["weights"].tolist()


def test_the_checksum_is_that_of_the_file_with_zeros_in_its_place(content: bytes) -> None:
    checksum = read_header(content)["sha256"]
    assert content.count(checksum.encode()) == 1
    assert hashlib.sha256(content.replace(checksum.encode(), b"0" * 64)).hexdigest() == checksum


def test_every_flipped_bit_is_noticed(content: bytes) -> None:
    for offset in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[offset] ^= 1 << bit
            with pytest.raises(Exception, match=r".") as noticed:
                read_header(bytes(changed))
                load(bytes(changed))
            assert type(noticed.value).__name__ in {
                "ValueError",
                "SafetensorError",
                "JSONDecodeError",
                "UnicodeDecodeError",
            }


def test_a_file_without_a_checksum_is_read_as_one_of_an_earlier_version() -> None:
    assert read_header(save(TENSORS)) == {}
    header = read_header(save(TENSORS, {"prunus": json.dumps(HEADER)}))
    assert header == HEADER
    assert not is_sealed(header)


@pytest.mark.parametrize("metadata", [{"prunus": "[]"}, {"prunus": "{"}, {"other": "{}"}, {"prunus": "[" * 100_000}])
def test_a_header_that_is_none_is_an_error_of_value(metadata: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_header(save(TENSORS, metadata))


def test_one_of_the_two_keys_alone_does_not_pass(content: bytes) -> None:
    for key in ("checksum", "sha256"):
        header = {name: value for name, value in read_header(content).items() if name != key}
        with pytest.raises(ValueError, match="its checksum does not match its content"):
            read_header(save(TENSORS, {"prunus": json.dumps(header)}))
