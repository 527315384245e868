"""Limits in words: what is used of them, and by how much they are missed."""

import pytest

from prunus.measure.budget import KernelShare, LimitUse, Plan, Unit, in_words, limits_in_words, write_amount
from prunus.measure.cost import CostReport, DomainCost, LayerCost
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


def test_of_domains_with_one_limit_the_one_that_uses_most_is_written_and_of_several_limits_all() -> None:
    kernels = LimitUse.of("kernels", 10, 40)
    birds, flowers = (LimitUse.of("macs", used, 20_000_000, name) for used, name in ((9, "birds"), (8, "flowers")))
    assert in_words([birds, flowers, kernels]) == "10 of 40 kernels, 9 of 20 M MACs for domain 'birds'"
    own = LimitUse.of("macs", 5_000_000, 6_000_000, "flowers")
    assert in_words([birds, own]) == "9 of 20 M MACs for domain 'birds', 5 M of 6 M MACs for domain 'flowers'"
    over = [LimitUse.of("kernels", used, 40, name) for used, name in ((41, "birds"), (39, "flowers"), (50, None))]
    assert in_words(over) == "41 of 40 kernels for domain 'birds', 50 of 40 kernels"
    assert in_words([]) == ""


def test_limits_are_written_once_if_domains_have_them_in_common() -> None:
    macs = [LimitUse.of("macs", 1, limit, name) for limit, name in ((2_000_000, "birds"), (4_000_000, "flowers"))]
    size = LimitUse.of("bytes", 1, 400_000)
    assert limits_in_words([*macs, size]) == "400 kB, 2 M MACs for birds, 4 M MACs for flowers"
    assert limits_in_words([macs[0], macs[0].model_copy(update={"domain": "flowers"})]) == "2 M MACs"
    assert limits_in_words(macs[:1]) == "2 M MACs for birds"
    assert write_amount("bytes", 300_000) == "300 kB"
    assert write_amount("kernels", 1_234) == "1,234 kernels"


def test_a_plan_is_read_as_it_was_written() -> None:
    written = PLAN.model_dump(mode="json")
    assert written["limits"][0] == {"name": "kernels", "domain": None, "used": 18_828, "limit": 18_828, "kept": True}
    assert Plan.model_validate(written) == PLAN


def test_the_share_of_a_domain_may_be_of_the_network_of_each_layer_or_of_the_macs() -> None:
    # 10 and 30 kernels of 9 weights; 100 and 1 output pixels
    layers = (LayerCost("a", 10, 9, 100, (4,), 4, 4, 36), LayerCost("b", 30, 9, 1, (6,), 6, 6, 54))
    costs = CostReport(("birds",), layers, (DomainCost(),))
    lines = {per: KernelShare.of(0.25, None, per).limits(costs) for per in ("network", "layer", "macs")}
    assert lines["network"] == (LimitUse.of("kernels", 10, 10, "birds"),)
    assert lines["layer"] == (LimitUse.of("kernels", 4, 2, "birds"),)  # of the first layer, the fullest
    assert lines["macs"] == (LimitUse.of("macs", 4 * 900 + 6 * 9, (9000 + 270) // 4, "birds"),)
    assert [line[0].kept for line in lines.values()] == [True, False, False]
    assert KernelShare.of(0.25, "union", "macs").limits(costs)[1] == LimitUse.of("kernels", 10, 10)
