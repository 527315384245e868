"""Results of a run and of its model file, which agree but for the last digits of probabilities."""

from typing import Any

import pytest


def assert_same_results(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Compare two evaluations as JSON; the probabilities of mistakes come from different engines."""
    pairs = [_taken(first), _taken(second)]
    assert pairs[0][0] == pairs[1][0]
    assert pairs[0][1] == pytest.approx(pairs[1][1], abs=1e-4)


def _taken(results: dict[str, Any]) -> tuple[dict[str, Any], list[float]]:
    """Return the results without the probabilities of mistakes, which are sorted by them, and these."""
    domains, probabilities = {}, []
    for name, domain in results["domains"].items():
        mistakes = domain["by_class"]["mistakes"]
        probabilities += [mistake["probability"] for mistake in mistakes]
        others = sorted(({**mistake, "probability": None} for mistake in mistakes), key=str)
        domains[name] = domain | {"by_class": domain["by_class"] | {"mistakes": others}}
    return results | {"domains": domains}, probabilities
