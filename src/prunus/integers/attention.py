"""Attention over codes in numpy, exactly as every engine computes it.

Legend: Q and K = pixels of queries and of keys, D and E = channels of a head in q and k, and in v.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from prunus.arrays import Bytes, Floats, Values
from prunus.bundle.eight_bits.rules import HALF_CODES, LARGEST_CODE
from prunus.integers.coding import rounded
from prunus.integers.powers import power_codes
from prunus.integers.steps import AttentionStep

MOST_SCORES = 2**18  # at a time


def attend(step: AttentionStep, inputs: Sequence[Bytes], tensors: Mapping[str, Values], domain: int) -> Bytes:
    """Compute head by head, image by image and a limited number of scores at a time."""
    attention, sides, images = step.attention, step.shape[1:], len(inputs[0])
    q, k, v = (codes.reshape(images, codes.shape[1], -1) for codes in inputs)
    whole = np.arange(q.shape[2])[None], np.arange(k.shape[2])[None]
    rows, columns = whole if attention.window is None else (attention.windows(sides),) * 2
    result = np.empty((images, *step.shape), np.uint8).reshape(images, step.shape[0], -1)
    for image, head in np.ndindex(images, attention.heads):
        q_D, k_D, v_E = (
            codes[image, attention.head_channels(position)[head]] for position, codes in enumerate((q, k, v))
        )
        added = _added_scores(step, head, domain)
        channels = slice(head * attention.dims[1], (head + 1) * attention.dims[1])
        for windows, queries in _slices(rows.shape, columns.shape[1]):
            parts = q_D[:, rows[windows, queries]], k_D[:, columns[windows]], v_E[:, columns[windows]]
            codes = _attended(step, parts, [more[windows, queries] for more in added], domain)
            result[image, channels, rows[windows, queries]] = codes
    return result.reshape(images, *step.shape)


def _slices(shape: tuple[int, ...], keys: int) -> Iterator[tuple[slice, slice]]:
    """Yield slices of windows and of queries that have a limited number of scores, but at least one query."""
    windows, queries = shape
    some = min(queries, max(1, MOST_SCORES // keys))
    many = max(1, MOST_SCORES // (some * keys))
    for window in range(0, windows, many):
        for query in range(0, queries, some):
            yield slice(window, window + many), slice(query, query + some)


def _added_scores(step: AttentionStep, head: int, domain: int) -> list[Floats]:
    """Return what is added to the scores of one head, one after the other: (windows or 1, Q, K)."""
    attention = step.attention
    added: list[Floats] = []
    if step.biases is not None:
        bias = step.biases[domain, head]
        count = 1 if attention.window is None else len(attention.windows(step.shape[1:]))
        added.append(np.broadcast_to(bias, (count, *bias.shape)))
    if attention.window is not None and attention.apart:
        regions = attention.regions(step.shape[1:])
        is_apart = regions[:, :, None] != regions[:, None, :]
        added.append(np.where(is_apart, np.float32(step.apart), np.float32(0)))
    return added


def _attended(step: AttentionStep, parts: Sequence[Bytes], added: Sequence[Floats], domain: int) -> Bytes:
    """Return the codes of some queries, (windows, Q, E).

    Args:
        parts: q (D, windows, Q), k (D, windows, K) and v (E, windows, K).
    """
    q_zero, v_zero, zero = step.zeros[domain].tolist()
    queries = np.moveaxis(parts[0].astype(np.float32) - np.float32(q_zero), 0, -1)
    keys = np.moveaxis(parts[1].astype(np.float32) - np.float32(HALF_CODES), 0, 1)
    values = np.moveaxis(parts[2].astype(np.float64) - v_zero, 0, -1)
    scores = (queries @ keys) * step.multipliers[domain]
    for more in added:
        scores = scores + more
    weights = power_codes(scores - scores.max(axis=2, keepdims=True)).astype(np.float64)
    factors = step.factors[domain] / weights.sum(axis=2, keepdims=True).astype(np.float32)
    return rounded((weights @ values).astype(np.float32) * factors + np.float32(zero), 0, LARGEST_CODE)
