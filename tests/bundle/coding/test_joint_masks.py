"""Masks that are coded together are decoded to the same masks, and nothing else is."""

import zlib
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunus.arrays import Bools, Bytes
from prunus.bundle.coding.joint_masks import decode_masks, encode_masks, is_worth_it, num_symbols
from prunus.errors import BundleError

SIZES = st.lists(st.integers(0, 70), min_size=1, max_size=4)


def shared_masks(domains: int, sizes: Sequence[int], seed: int = 0) -> list[Bools]:
    """Draw masks of domains that nearly always use the same kernels."""
    rng = np.random.default_rng(seed)
    return [(rng.random((1, size)) < 0.7) ^ (rng.random((domains, size)) < 0.01) for size in sizes]


def plain_bytes(masks: Sequence[Bools]) -> int:
    return sum(len(mask) * -(-mask.shape[1] // 8) for mask in masks)


def by_the_page(coded: bytes, domains: int, sizes: Sequence[int]) -> list[list[list[bool]]]:
    """Decode masks bit by bit, as docs/model-file.md describes them."""
    symbols = list(zlib.decompress(coded, wbits=-15))
    groups = -(-domains // 8)
    masks = [[[False] * size for _ in range(domains)] for size in sizes]
    position, first = 0, 0
    for group in range(groups):
        members = domains // groups + (1 if group < domains % groups else 0)
        per_byte = 8 // members
        for layer, size in enumerate(sizes):
            for kernel in range(size):
                byte = symbols[position + kernel // per_byte]
                for member in range(members):
                    masks[layer][first + member][kernel] = bool(byte >> (kernel % per_byte * members + member) & 1)
            position += -(-size // per_byte)
        first += members
    assert position == len(symbols)
    return masks


@pytest.mark.hypothesis
@given(domains=st.integers(1, 20), sizes=SIZES, seed=st.integers(0, 100))
def test_what_is_decoded_is_what_was_coded(domains: int, sizes: list[int], seed: int) -> None:
    masks = shared_masks(domains, [400, *sizes], seed)
    coded = encode_masks(masks)
    assert is_worth_it(coded, masks) is (coded.size <= 0.8 * plain_bytes(masks))
    assert is_worth_it(coded, masks) or domains < 3  # a single domain's bits have nothing in common
    decoded = list(decode_masks(coded, domains, [400, *sizes]))
    assert [mask.tolist() for mask in decoded] == [mask.tolist() for mask in masks]
    assert by_the_page(coded.tobytes(), domains, [400, *sizes]) == [mask.tolist() for mask in masks]


def test_masks_without_anything_in_common_are_not_worth_it() -> None:
    rng = np.random.default_rng(0)
    for masks in ([rng.random((5, 4000)) < 0.5], [np.zeros((3, 0), np.bool_)]):
        assert not is_worth_it(encode_masks(masks), masks)


def test_kernels_that_all_domains_use_take_next_to_nothing() -> None:
    assert encode_masks([np.ones((9, 100_000), np.bool_)]).size < 0.01 * 9 * 100_000 / 8


@pytest.mark.parametrize("domains", [1, 2, 3, 4, 5, 8, 9, 16, 17])
def test_a_byte_holds_as_many_patterns_as_fit(domains: int) -> None:
    groups = -(-domains // 8)
    larger, smaller = -(-domains // groups), domains // groups
    count = sum(-(-1000 // (8 // size)) for size in [larger] * (domains - groups * smaller) or [])
    count += sum(-(-1000 // (8 // smaller)) for _ in range(groups - (domains - groups * smaller)))
    assert num_symbols(domains, [1000]) == count


def _deflated(symbols: bytes) -> Bytes:
    deflate = zlib.compressobj(wbits=-15)
    return np.frombuffer(deflate.compress(symbols) + deflate.flush(), np.uint8)


@pytest.mark.parametrize(
    ("coded", "message"),
    [
        (_deflated(bytes(9)), "do not have the 10 bytes"),
        (_deflated(bytes(11)), "do not have the 10 bytes"),
        (_deflated(bytes(10))[:-1], "do not have the 10 bytes|cannot be decoded"),
        (np.append(_deflated(bytes(10)), np.uint8(0)), "do not have the 10 bytes"),
        (_deflated(bytes(10**8)), "do not have the 10 bytes"),  # a hundred megabytes are never made
        (np.full(20, 255, np.uint8), "cannot be decoded"),
        (np.zeros(0, np.uint8), "do not have the 10 bytes"),
        (_deflated(bytes(9) + b"\x20"), "bits after the last kernel"),  # the sixth bit of five domains
        (_deflated(bytes(range(10))), None),
    ],
)
def test_other_bytes_are_refused(coded: Bytes, message: str | None) -> None:
    if message is None:
        assert len(list(decode_masks(coded, 5, [10]))) == 1
        return
    with pytest.raises(BundleError, match=message):
        list(decode_masks(coded, 5, [10]))


def test_bits_of_kernels_that_a_layer_does_not_have_are_refused() -> None:
    coded = _deflated(b"\xff")  # two domains, four kernels in a byte
    assert [mask.shape for mask in decode_masks(coded, 2, [4])] == [(2, 4)]
    with pytest.raises(BundleError, match="bits after the last kernel"):
        list(decode_masks(coded, 2, [3]))
