"""Results are read as they were written, and average over the domains."""

import pytest

from prunus.measure.alternatives.results import Versus
from tests.makers.versus_results import row, versus

RIVAL = row("lora", 0, 0.8, 5000, 2.0)


def test_a_row_averages_over_its_domains() -> None:
    assert RIVAL.mean_accuracy == pytest.approx(0.8)
    assert RIVAL.milliseconds == pytest.approx(2.0)


def test_results_are_read_as_they_were_written() -> None:
    results = versus([RIVAL], {"pruned": "no"})
    assert Versus.model_validate_json(results.model_dump_json()) == results
