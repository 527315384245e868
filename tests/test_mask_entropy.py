"""What coding the masks of all domains together saves is measured, and decides where it is done."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.mask_entropy import entropy_bits, measure
from prunus.bundle.coding.joint_masks import WORTH_IT
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
    assert found["most_saved"] == pytest.approx(1 - found["entropy_bytes"] / found["mask_bytes"], abs=0.01)
    assert found["most_saved"] >= 0.5


def test_the_page_shows_the_stored_results_and_they_decide_what_is_coded_together() -> None:
    rows = json.loads((ROOT / "docs" / "results" / "benchmarks" / "mask_entropy.json").read_text())["rows"]
    page = (ROOT / "docs" / "model-file.md").read_text()
    for row in rows:
        cells = [f"{row['domains']}", f"{row['mask_bytes']:,}", f"{row['coded_bytes']:,}"]
        cells += [f"{100 * row[key]:.1f} %" for key in ("saved", "most_saved")]
        (line,) = (line for line in page.splitlines() if line.startswith(f"| `{row['model']}`: "))
        assert line.split(" | ")[1:] == [*cells[:-1], f"{cells[-1]} |"]
        assert row["saved"] == pytest.approx(1 - row["coded_bytes"] / row["mask_bytes"])
        assert row["is_worth_it"] is (row["saved"] >= WORTH_IT)
        assert row["entropy_bytes"] < row["coded_bytes"] < row["mask_bytes"]
    assert [row["is_worth_it"] for row in rows] == [False, True, True]
