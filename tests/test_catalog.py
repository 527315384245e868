"""The catalog that is listed without torch says what the tables say that train."""

import dataclasses

import pytest

from prunus.catalog import find_described, read_catalog
from tests.makers.catalog import make_catalog


@pytest.mark.slow
def test_the_catalog_is_that_of_the_tables() -> None:
    stored, made = read_catalog(), make_catalog()
    advice = "write it again: python -m tests.makers.catalog"
    assert stored.backbones == made.backbones, advice
    assert [row.name for row in stored.methods] == [row.name for row in made.methods], advice
    for row, expected in zip(stored.methods, made.methods, strict=True):
        costs = (expected.params_ratio, expected.macs_ratio)
        assert dataclasses.replace(row, params_ratio=costs[0], macs_ratio=costs[1]) == expected, advice
        assert (row.params_ratio, row.macs_ratio) == pytest.approx(costs), advice


def test_a_method_that_others_added_is_not_described() -> None:
    union = find_described("union")
    assert union is not None
    assert (union.has_budget, union.keeps_budget, union.masked, union.sharing) == (True, False, True, "union")
    assert find_described("channel_scales") is None
