"""A small model file in memory, with two domains."""

import numpy as np
import pytest

from prunus.arrays import Array
from prunus.bundle.bundle import Bundle
from prunus.bundle.coding.bits import pack_bits
from prunus.bundle.manifest import DomainEntry, Manifest
from prunus.graph.operations import Conv, Mean
from prunus.images import Preprocess

PREPROCESS = Preprocess(size=8, resize=9, mean=(0, 0, 0), std=(1, 1, 1))
CONV = Conv(op="conv", inputs=(0,), layer="conv", channels=(2, 3), was=(4, 3), kernel=(1, 1))


@pytest.fixture
def bundle() -> Bundle:
    """One layer of 2 x 3 kernels, four of them kept, two domains."""
    manifest = Manifest(
        backbone="wrn14_2",
        image_size=8,
        graph=(CONV, Mean(op="mean", inputs=(1,))),
        domains={
            "a": DomainEntry(classes=("x", "y"), preprocess=PREPROCESS),
            "b": DomainEntry(classes=("x", "y", "z"), preprocess=PREPROCESS),
        },
        dense_bytes=24,
        provenance={"bytes": [1, 2]},
    )
    union = np.array([[True, False, True], [True, True, False]])
    arrays: dict[str, Array] = {
        "union/conv": pack_bits(union),
        "kernels/conv": np.arange(1, 5, dtype=np.float32).reshape(4, 1, 1),
        "mask/a/conv": pack_bits(np.array([True, False, True, True])),
        "mask/b/conv": pack_bits(np.array([True, True, False, False])),
        "head/a/weight": np.zeros((2, 2), dtype=np.float32),
        "head/b/weight": np.zeros((3, 2), dtype=np.float32),
        "norm/a/0.scale": np.ones(2, dtype=np.float32),
        "norm/b/0.scale": np.full(2, 2, dtype=np.float32),
        "shared/0.ones": np.full((2, 1, 1), 3, dtype=np.float32),
        "head/a/bias": np.zeros(2, dtype=np.float32),
        "head/b/bias": np.zeros(3, dtype=np.float32),
    }
    return Bundle(manifest, arrays)
