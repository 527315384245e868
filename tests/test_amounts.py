"""Amounts are read as people write them, and written as people read them."""

import json

import pytest
from pydantic import ValidationError

from prunus.amounts import parse_bytes, parse_count, parse_share, plural, write_bytes, write_count
from prunus.config import Budget


@pytest.mark.parametrize(
    ("text", "count"),
    [("1 MB", 10**6), ("1MB", 10**6), ("300 kB", 300_000), ("1.5 mb", 1_500_000), ("2 MiB", 2**21), ("64 B", 64)],
)
def test_sizes(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    ("text", "count"), [("20 M", 20_000_000), ("20M", 20_000_000), ("1.2 GMACs", 1_200_000_000), ("7", 7), ("3k", 3000)]
)
def test_counts(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize("number", range(1, 1000, 7))
def test_what_is_written_is_read_back(number: int) -> None:
    assert parse_bytes(write_bytes(number * 1000)) == number * 1000
    assert parse_count(write_count(number * 10**6)) == number * 10**6


def test_other_values_stay_as_they_are() -> None:
    assert (parse_share(0.25), parse_bytes(7), parse_count(None)) == (0.25, 7, None)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("25", "percentage"),
        (25, 'write "25%"'),
        ("1 MB", 'write budget = { bytes = "1 MB" }, or use the override budget.bytes="1 MB"'),
        ({"bytes": "1 MW"}, "kB"),
        ({"bytes": "many"}, "expected a number"),
        ({"macs": "20 X"}, "20 M"),
        ({"macs": {"a": "20 X"}}, "20 M"),
        ({}, "at least one"),
        ({"kernels": 1.5}, "less than or equal to 1"),
        ({"bytes": 0}, "greater than 0"),
        ("120%", "less than or equal to 1"),
    ],
)
def test_wrong_budgets_are_refused_with_what_was_expected(content: object, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Budget.model_validate(content)


def test_a_budget_is_a_share_a_percentage_or_a_table() -> None:
    assert Budget.model_validate(0.25) == Budget.model_validate("25%") == Budget(kernels=0.25)
    table = Budget.model_validate({"bytes": "1 MB", "macs": {"birds": "20 M"}})
    assert (table.bytes, table.macs, table.kernels) == (10**6, {"birds": 20 * 10**6}, None)


def test_a_budget_is_written_as_it_may_be_read() -> None:
    assert json.loads(Budget(kernels=0.25).model_dump_json()) == 0.25
    table = Budget(kernels=0.5, macs=7)
    assert table.model_dump() == {"kernels": 0.5, "macs": 7}
    assert Budget.model_validate(table.model_dump()) == table
    assert str(Budget(kernels=0.5, bytes=10**6, macs={"a": 10**7})) == "0.5 of the kernels, 1 MB, 10 M MACs in a"
    assert Budget(bytes=10**6, macs=7).label == "bytes=1000000-macs=7"


def test_a_count_agrees_with_its_noun() -> None:
    assert [plural(count, "bad image") for count in (0, 1, 2, 1200)] == [
        "0 bad images",
        "1 bad image",
        "2 bad images",
        "1,200 bad images",
    ]
    assert [plural(count, "class has", "classes have") for count in (1, 3)] == ["1 class has", "3 classes have"]
