"""The masks of all domains coded together, which takes fewer bytes than a bit per kernel and domain.

Domains share kernels, so the pattern of domains that use a kernel is far from random. Patterns become bytes, and
deflate, without its search for repeated strings, gives frequent bytes few bits.

- Domains are divided into groups of at most eight, as equal as possible, the larger ones first. A byte holds the
  patterns of as many kernels that follow each other as fit, the first in the lowest bits.
- The bytes are ordered by group, then layer. Each layer starts a new byte, and unused bits are 0.

Legend: D = domains, K = kept kernels of a layer.
"""

import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from prunus.arrays import Bools, Bytes
from prunus.errors import BundleError

BITS = 8
WORTH_IT = 0.2  # of the bytes of plain masks; a small gain is not worth a decoder
MEMORY = 9  # deflate's most: the longest blocks with bits of their own
RAW = -zlib.MAX_WBITS  # deflate without a header or a checksum: the file has one of its own


def encode_masks(masks: Sequence[Bools]) -> Bytes:
    """Code the masks of all layers, (D, K) each."""
    groups = _groups(len(masks[0]))
    symbols = [_symbols(mask_DK[first:last]) for first, last in groups for mask_DK in masks]
    deflate = zlib.compressobj(zlib.Z_BEST_COMPRESSION, zlib.DEFLATED, RAW, MEMORY, zlib.Z_RLE)
    coded = deflate.compress(np.concatenate(symbols).tobytes()) + deflate.flush()
    return np.frombuffer(coded, np.uint8)


def is_worth_it(coded: Bytes, masks: Sequence[Bools]) -> bool:
    """Return whether coded masks take far fewer bytes than plain ones."""
    plain: int = sum(len(mask_DK) * -(-mask_DK.shape[1] // BITS) for mask_DK in masks)
    return len(coded) <= (1 - WORTH_IT) * plain


def decode_masks(coded: Bytes, domains: int, kept: Sequence[int]) -> Iterator[Bools]:
    """Yield the mask of every layer that keeps so many kernels, (D, K); refuse bytes that are not masks of them."""
    groups = _groups(domains)
    sizes = [[-(-count // _per_byte(first, last)) for count in kept] for first, last in groups]
    total = num_symbols(domains, kept)
    inflate = zlib.decompressobj(RAW)
    try:
        symbols = inflate.decompress(coded.tobytes(), total + 1)  # never more than expected, whatever the bytes say
    except zlib.error:
        raise BundleError("it is damaged: its masks cannot be decoded") from None
    if len(symbols) != total or not inflate.eof or inflate.unused_data:
        raise BundleError(f"it is damaged: its masks do not have the {total} bytes that its kernels need")
    ends = np.cumsum([size for group in sizes for size in group])
    pieces = np.split(np.frombuffer(symbols, np.uint8), ends[:-1])
    for layer, count in enumerate(kept):
        of_groups = pieces[layer :: len(kept)]
        yield np.concatenate(
            [_mask(piece, last - first, count) for (first, last), piece in zip(groups, of_groups, strict=True)]
        )


def num_symbols(domains: int, kept: Sequence[int]) -> int:
    """Return the number of bytes before deflate."""
    return sum(-(-count // _per_byte(first, last)) for first, last in _groups(domains) for count in kept)


def _groups(domains: int) -> list[tuple[int, int]]:
    """Return the first domain of every group, and the one after its last."""
    count = -(-domains // BITS)
    ends = np.cumsum([domains // count + (number < domains % count) for number in range(count)])
    return list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))


def _per_byte(first: int, last: int) -> int:
    return BITS // (last - first)


def _symbols(mask_DK: Bools) -> Bytes:
    """Return the bytes of a group of domains in one layer."""
    domains, count = mask_DK.shape
    per_byte = BITS // domains
    bits = np.zeros((-(-count // per_byte), per_byte, domains), np.bool_)
    bits.reshape(-1, domains)[:count] = mask_DK.T
    return np.packbits(bits.reshape(len(bits), per_byte * domains), axis=1, bitorder="little").reshape(-1)


def _mask(symbols: Bytes, domains: int, count: int) -> Bools:
    """Return the mask of a group of domains in one layer, (domains, K)."""
    used = BITS // domains * domains
    bits = np.unpackbits(symbols[:, None], axis=1, bitorder="little")
    mask_KD = bits[:, :used].reshape(-1, domains)
    if bits[:, used:].any() or mask_KD[count:].any():
        raise BundleError("it is damaged: its masks have bits after the last kernel of a layer")
    return mask_KD[:count].T.astype(np.bool_)
