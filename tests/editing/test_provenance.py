"""What a file records when domains come and go."""

import pytest

from prunus.bundle.manifest import Provenance
from prunus.editing.provenance import record_addition, record_removal
from prunus.recipes import parse_recipe

RECIPE = {"backbone": "wrn14_2", "domains": [{"name": "a", "path": "a"}, {"name": "b", "path": "b"}], "budget": 0.25}
ORIGIN: Provenance = {"prunus": "1", "backbone_sha256": "0", "step": 5, "total_steps": 5, "recipe": RECIPE}
OWN: Provenance = {
    "prunus": "2",
    "backbone_sha256": "of the file",
    "step": 7,
    "total_steps": 7,
    "recipe": {"backbone": "m.prunus", "domains": [{"name": "cars", "path": "cars.zip"}], "budget": 1.0},
}


def names(provenance: Provenance) -> list[str]:
    return [domain.name for domain in parse_recipe(provenance["recipe"]).domains]


def test_an_added_domain_is_listed_with_the_run_that_learned_it() -> None:
    found = record_addition(ORIGIN, "cars", OWN)
    assert names(found) == ["a", "b", "cars"]
    assert list(found["added"]) == ["cars"]
    assert found["added"]["cars"]["step"] == 7
    assert "backbone_sha256" not in found["added"]["cars"]
    assert found["backbone_sha256"] == "0"
    assert ORIGIN["recipe"]["domains"] == RECIPE["domains"]


def test_a_removed_domain_is_forgotten() -> None:
    assert record_removal(record_addition(ORIGIN, "cars", OWN), "cars") == ORIGIN
    assert names(record_removal(ORIGIN, "a")) == ["b"]


def test_a_replaced_domain_keeps_its_place() -> None:
    own = OWN | {"recipe": OWN["recipe"] | {"domains": [{"name": "a", "path": "other"}]}}
    found = record_addition(ORIGIN, "a", own)
    assert names(found) == ["a", "b"]
    assert found["recipe"]["domains"][0]["path"] == "other"
    assert list(found["added"]) == ["a"]


def test_what_was_grown_raises_the_limit_of_kernels() -> None:
    assert record_addition(ORIGIN, "cars", OWN, 0.05)["recipe"]["budget"] == 0.3
    table = ORIGIN | {"recipe": RECIPE | {"budget": {"kernels": 0.98, "bytes": 1000}}}
    assert record_addition(table, "cars", OWN, 0.05)["recipe"]["budget"] == {"kernels": 1.0, "bytes": 1000}


def test_the_limit_falls_again_when_the_domain_leaves() -> None:
    grown = record_addition(ORIGIN, "cars", OWN, 0.05)
    assert record_removal(grown, "cars") == ORIGIN
    nearly_all = ORIGIN | {"recipe": RECIPE | {"budget": 0.98}}
    assert record_removal(record_addition(nearly_all, "cars", OWN, 0.05), "cars") == nearly_all


def test_a_domain_that_is_trained_again_keeps_what_was_grown_for_it() -> None:
    """Its kernels are still in the file and may be used again, so a lower limit would be wrong."""
    grown = record_addition(ORIGIN, "cars", OWN, 0.05)
    assert record_addition(grown, "cars", OWN)["recipe"]["budget"] == 0.3
    more = record_addition(grown, "cars", OWN, 0.02)
    assert more["recipe"]["budget"] == 0.32
    assert record_removal(more, "cars") == ORIGIN


def test_the_limit_falls_no_lower_than_what_the_other_domains_use() -> None:
    grown = record_addition(ORIGIN, "cars", OWN, 0.05)
    assert record_removal(grown, "cars", 0.2) == ORIGIN
    assert record_removal(grown, "cars", 0.27)["recipe"]["budget"] == 0.27
    assert record_removal(grown, "cars", 0.4)["recipe"]["budget"] == 0.3


@pytest.mark.parametrize("odd", [-0.1, 5.0, True, "x", None])
def test_an_impossible_record_of_growth_changes_no_limit(odd: object) -> None:
    grown = record_addition(ORIGIN, "cars", OWN, 0.05)
    grown["added"]["cars"]["grown"] = odd
    assert record_removal(grown, "cars")["recipe"]["budget"] == 0.3
    assert record_addition(grown, "cars", OWN)["recipe"]["budget"] == 0.3


def test_a_domain_that_is_trained_again_keeps_its_limit() -> None:
    limited = ORIGIN | {"recipe": RECIPE | {"budget": {"bytes": 1000, "macs": {"a": 10, "b": 20}}}}
    own = OWN | {"recipe": OWN["recipe"] | {"domains": [{"name": "a", "path": "other"}]}}
    assert record_addition(limited, "a", own)["recipe"]["budget"] == {"bytes": 1000, "macs": {"a": 10, "b": 20}}
    alone = ORIGIN | {"recipe": RECIPE | {"budget": {"macs": {"a": 10}}}}
    assert record_addition(alone, "a", own)["recipe"]["budget"]["macs"] == {"a": 10}


def test_a_limit_of_one_domain_goes_with_it() -> None:
    limited = ORIGIN | {"recipe": RECIPE | {"budget": {"bytes": 1000, "macs": {"a": 10, "b": 20}}}}
    assert record_removal(limited, "a")["recipe"]["budget"] == {"bytes": 1000, "macs": {"b": 20}}
    alone = ORIGIN | {"recipe": RECIPE | {"budget": {"macs": {"a": 10}}}}
    assert record_removal(alone, "a")["recipe"]["budget"] == 1.0


def test_a_benchmark_with_another_domain_is_no_benchmark() -> None:
    benchmark = ORIGIN | {"recipe": RECIPE | {"benchmark": "decathlon", "root": "data"}}
    assert {"benchmark", "root"} & record_addition(benchmark, "cars", OWN)["recipe"].keys() == set()


def test_a_file_without_a_recipe_records_the_addition_alone() -> None:
    assert names({"recipe": RECIPE}) == ["a", "b"]
    assert set(record_addition({}, "cars", OWN)) == {"added"}


def test_the_source_stays_marked_until_it_is_removed() -> None:
    domains = [{"name": "a", "path": "a", "source": True}, {"name": "b", "path": "b"}]
    marked = ORIGIN | {"recipe": RECIPE | {"domains": domains}}
    assert parse_recipe(record_addition(marked, "cars", OWN)["recipe"]).source == "a"
    again = OWN | {"recipe": OWN["recipe"] | {"domains": [{"name": "a", "path": "other"}]}}
    replaced = parse_recipe(record_addition(marked, "a", again)["recipe"])
    assert (replaced.source, replaced.domains[0].path) == ("a", "other")
    assert parse_recipe(record_removal(marked, "b")["recipe"]).source == "a"
    assert parse_recipe(record_removal(marked, "a")["recipe"]).source is None


@pytest.mark.parametrize(
    "odd",
    [
        {"recipe": None},
        {"recipe": 3},
        {"recipe": {}},
        {"recipe": {"domains": None}},
        {"recipe": {"domains": ["a", "b"]}},
        {"recipe": {"domains": [{"path": "a"}]}},
        {"recipe": RECIPE | {"budget": {"kernels": "25%"}}},
        {"recipe": RECIPE | {"budget": "25%"}},
        {"recipe": RECIPE | {"budget": {"macs": ["a"]}}},
    ],
)
def test_an_odd_recipe_stays_as_it_is_and_the_addition_is_recorded(odd: Provenance) -> None:
    found = record_addition(odd, "cars", OWN, 0.05)
    assert found["recipe"] == odd["recipe"]
    assert list(found["added"]) == ["cars"]
    assert record_removal(found, "cars") == odd


@pytest.mark.parametrize("added", [None, [], {"cars": 3}, {"cars": None}, {"cars": {"grown": "much"}}])
def test_odd_records_of_additions_are_replaced(added: object) -> None:
    found = record_addition(ORIGIN | {"added": added}, "cars", OWN)
    assert found == record_addition(ORIGIN, "cars", OWN)
    assert record_removal(ORIGIN | {"added": added}, "cars") == ORIGIN
