"""Codes of 8 bits: number = scale * (code - zero), in float32 with one rounding per operation.

Legend: D = domains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prunus.arrays import Bytes, Doubles, Floats, Integers
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.rules import LARGEST_CODE


@dataclass(frozen=True)
class Codings:
    """The coding of one value in every domain."""

    scales: Floats  # (D,)
    zeros: Integers  # (D,)

    def same_as(self, other: Codings) -> list[bool]:
        """Return for every domain whether two values have the same coding."""
        is_same = (self.scales == other.scales) & (self.zeros == other.zeros)
        return [bool(same) for same in is_same]

    def doubles(self) -> tuple[Doubles, Doubles]:
        """Return scales and zeros in double precision."""
        return self.scales.astype(np.float64), self.zeros.astype(np.float64)


def value_codings(bundle: Bundle) -> dict[int, Codings]:
    """Return the coding of every coded value of a bundle's graph."""
    coded = bundle.manifest.coded
    if not coded:
        return {}
    scales_DV = np.stack([bundle.arrays[f"coding/{domain}/scale"] for domain in bundle.domains]).astype(np.float32)
    zeros_DV = np.stack([bundle.arrays[f"coding/{domain}/zero"] for domain in bundle.domains]).astype(np.int64)
    return {value: Codings(scales_DV[:, index], zeros_DV[:, index]) for index, value in enumerate(coded)}


def inverse_scales(scales_D: Floats) -> Floats:
    """Return the factors that numbers are multiplied by to encode them."""
    inverse: Floats = (1.0 / scales_D.astype(np.float64)).astype(np.float32)
    return inverse


def to_codes(numbers: Floats, inverse_scale: np.float32, zero: int) -> Bytes:
    """Return the nearest codes, ties to even; numbers out of range take the first or last code, NaN the first."""
    shifted = numbers * inverse_scale + np.float32(zero)
    limited = np.where(shifted > 0, np.minimum(shifted, np.float32(LARGEST_CODE)), np.float32(0))
    return np.rint(limited).astype(np.uint8)


def rounded(numbers: Floats, low: int, high: int) -> Bytes:
    """Return the nearest codes within limits, ties to even."""
    codes: Bytes = np.rint(np.clip(numbers, np.float32(low), np.float32(high))).astype(np.uint8)
    return codes


def to_numbers(codes: Bytes, scale: np.float32, zero: int) -> Floats:
    """Return the numbers that codes stand for."""
    numbers: Floats = (codes.astype(np.int32) - zero).astype(np.float32) * scale
    return numbers


def nearest_codes(numbers: Doubles, scales: Doubles, zeros: Doubles) -> Bytes:
    """Return the nearest codes of numbers in double precision, the first for NaN: for tables that are made once."""
    shifted = numbers / scales + zeros
    return np.rint(np.where(shifted > 0, np.minimum(shifted, LARGEST_CODE), 0)).astype(np.uint8)
