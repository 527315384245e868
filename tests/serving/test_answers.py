"""Every response has the shape of its typed model."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from prunus.serving.answers import ClassAnswer, DomainsAnswer, ErrorAnswer, HealthAnswer, PredictAnswer
from tests.makers.live_service import Live, picture


def test_responses_are_exactly_their_models(live: Live) -> None:
    predicted = PredictAnswer.model_validate(live.predict(picture(1), domain="flowers", top=2).json())
    assert (predicted.domain, len(predicted.results[0].predictions)) == ("flowers", 2)
    assert predicted.milliseconds > 0
    domains = DomainsAnswer.model_validate(live.client.get("/domains").json())
    assert domains.domains[0].examples[0].path == "examples/birds/0"
    assert HealthAnswer.model_validate(live.client.get("/health").json()).domains == 2
    assert ErrorAnswer.model_validate(live.predict(b"text").json()).error


@pytest.mark.parametrize("values", [{"label": "x", "probability": 1.5}, {"label": "x", "probability": 1, "more": 1}])
def test_a_response_with_other_keys_or_an_impossible_probability_is_an_error(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ClassAnswer.model_validate(values)
