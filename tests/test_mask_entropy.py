"""What coding the masks of all domains together could save is measured, and too little to do it."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.mask_entropy import WORTH_IT, entropy_bits, measure
from tests.makers.graph_bundles import random_bundle, varied_graph

ROOT = Path(__file__).parents[1]


def test_the_entropy_is_that_of_the_patterns_of_all_domains() -> None:
    same = np.array([[1, 0, 1, 0], [1, 0, 1, 0]], dtype=bool)
    assert entropy_bits(same) == 4  # two patterns, equally often: a bit per kernel
    assert entropy_bits(np.array([[1, 0, 1, 0], [1, 1, 0, 0]], dtype=bool)) == 8
    assert entropy_bits(np.ones((5, 9), dtype=bool)) == 0


def test_equal_masks_of_two_domains_take_half_of_their_bytes_at_most() -> None:
    bundle = random_bundle(varied_graph(0), 12, ("a", "b"))
    for layer in bundle.manifest.convs:
        bundle.arrays[f"mask/b/{layer}"] = bundle.arrays[f"mask/a/{layer}"]
    found = measure(bundle)
    packed = [bundle.packed_masks(layer).nbytes for layer in bundle.manifest.convs]
    assert found["mask_bytes"] == sum(packed)
    assert found["saved"] == pytest.approx(1 - found["entropy_bytes"] / found["mask_bytes"], abs=0.01)
    assert found["saved"] >= 0.5


def test_the_page_shows_the_stored_bound_and_it_is_not_worth_a_code() -> None:
    (row,) = json.loads((ROOT / "docs" / "results" / "benchmarks" / "mask_entropy.json").read_text())["rows"]
    page = " ".join((ROOT / "docs" / "model-file.md").read_text().split())
    assert (
        f"at most {100 * row['saved']:.1f} % of their {row['mask_bytes']:,} bytes in the model of `prunus demo`" in page
    )
    assert f"which is {100 * row['saved'] * row['mask_bytes'] / row['bytes']:.1f} % of the file" in page
    assert row["saved"] < WORTH_IT
