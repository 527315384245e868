"""Hard sharing: the layers that are copied per domain, and what they cost."""

import pytest

from prunus.masks.layout import convolutions
from prunus.methods import hard_sharing
from tests.makers.method_costs import nine_domain_costs, wrn28


@pytest.mark.parametrize(
    ("layers", "share", "expected"),
    [("early", 0.5, ["a", "b"]), ("late", 0.25, ["d"]), ("late", 0, []), ("early", 1, ["a", "b", "c", "d"])],
)
def test_hard_sharing_chooses_the_layers_it_is_told_to(layers: str, share: float, expected: list[str]) -> None:
    options = hard_sharing.Options.model_validate({"layers": layers, "share": float(share)})
    assert hard_sharing.copied_layers(["a", "b", "c", "d"], options) == expected


def test_random_layers_of_hard_sharing_are_the_same_for_one_seed_and_differ_between_seeds() -> None:
    names = [str(i) for i in range(20)]
    drawn = [hard_sharing.copied_layers(names, hard_sharing.Options(layers="random", seed=s)) for s in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(len(chosen) == 10 for chosen in drawn)


def test_hard_sharing_costs_a_common_copy_and_the_early_layers_of_every_domain() -> None:
    sizes = [conv.num_weights for conv in convolutions(wrn28().network)]
    half = round(len(sizes) / 2)
    expected = (sum(sizes[half:]) + 9 * sum(sizes[:half])) / sum(sizes)
    assert nine_domain_costs("hard_sharing").params_ratio() == pytest.approx(expected)
    assert nine_domain_costs("hard_sharing").params_ratio(with_source=True) == pytest.approx(1 + expected)
