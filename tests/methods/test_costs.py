"""Storage by formula: the ratios that the literature publishes for a WRN-28 and ten domains, the source unadapted."""

import pytest

from tests.makers.method_costs import nine_domain_costs


@pytest.mark.parametrize(
    ("method", "published"),
    [("feature", 1.0), ("bn", 1.0), ("finetune", 10.0), ("piggyback", 1.28), ("ba2", 1.03), ("union", 1.03)],
)
def test_storage_is_the_published_one(method: str, published: float) -> None:
    assert round(nine_domain_costs(method).params_ratio(with_source=True), 2) == published
