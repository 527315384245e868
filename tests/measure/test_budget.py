"""Limits in words: what is used of them, and by how much they are missed."""

import pytest

from prunus.measure.budget import LimitUse, Plan, Unit, in_words, write_amount
from tests.makers.plans import PLAN


@pytest.mark.parametrize(
    ("name", "used", "limit", "expected"),
    [
        ("kernels", 18_828, 18_828, "18,828 of 18,828 kernels"),
        ("weights", 1_000, 2_000, "1,000 of 2,000 weights"),
        ("bytes", 999_993, 1_000_000, "999.993 kB of 1 MB"),
        ("macs", 12_403_152, 20_000_000, "12.403 M of 20 M MACs"),
        ("bytes", 1_000_050, 1_000_000, "1,000,050 of 1,000,000 bytes"),  # both would be written as 1 MB
        ("macs", 20_000_001, 20_000_000, "20,000,001 of 20,000,000 MACs"),
    ],
)
def test_a_limit_is_written_with_its_unit_and_never_rounded_to_look_kept(
    name: Unit, used: int, limit: int, expected: str
) -> None:
    line = LimitUse.of(name, used, limit)
    assert str(line) == expected
    assert line.kept == (used <= limit)
    assert line.share == used / limit


def test_of_several_domains_the_one_that_uses_most_of_its_own_limit_is_written() -> None:
    limits = [
        LimitUse.of("macs", 9_000_000, 20_000_000, "birds"),
        LimitUse.of("macs", 5_000_000, 6_000_000, "flowers"),
        LimitUse.of("kernels", 10, 40),
    ]
    assert in_words(limits) == "10 of 40 kernels, 5 M of 6 M MACs for domain 'flowers'"
    assert in_words([]) == ""
    assert write_amount("bytes", 300_000) == "300 kB"
    assert write_amount("kernels", 1_234) == "1,234 kernels"


def test_a_plan_is_read_as_it_was_written() -> None:
    written = PLAN.model_dump(mode="json")
    assert written["limits"][0] == {"name": "kernels", "domain": None, "used": 18_828, "limit": 18_828, "kept": True}
    assert Plan.model_validate(written) == PLAN
