"""The check accepts what rounds to the nearest code and nothing else."""

import numpy as np
import pytest

from prunus.arrays import Array
from prunus.onnx.coded_check import CodedCheck, logits_error
from prunus.onnx.coded_network import CodedNetwork, common_network
from tests.makers.coded_bundles import integer_graph, random_coded_bundle
from tests.makers.coded_networks import coded_values


def _values(seed: int = 3) -> tuple[CodedNetwork, dict[str, Array]]:
    bundle = random_coded_bundle(integer_graph(seed), 12, share=0.7, seed=seed)
    coded = common_network(bundle)
    images = np.random.default_rng(0).standard_normal((1, 3, 12, 12)).astype(np.float32)
    return coded, coded_values(coded, 1, images)


@pytest.mark.parametrize("seed", range(4))
def test_exact_results_that_are_rounded_once_pass(seed: int) -> None:
    coded, values = _values(seed)
    errors = dict(CodedCheck(coded, 1, values).errors())
    assert max(errors.values()) <= 1
    assert errors.keys() == values.keys() - {"images"}
    assert max(error for name, error in errors.items() if name.startswith("codes")) > 0.9


def test_another_code_another_float_and_other_logits_fail() -> None:
    coded, values = _values()
    for name in values.keys() - {"images"}:
        changed = values[name].astype(np.float64)
        is_code = name.startswith("codes")
        changed.flat[1] += (5 if changed.flat[1] < 250 else -5) if is_code else 0.01 * np.abs(changed).max()
        assert dict(CodedCheck(coded, 1, values | {name: changed}).errors())[name] > 1, name


def test_logits_may_differ_by_a_share_of_their_spread_or_of_what_8_bits_changed() -> None:
    rng = np.random.default_rng(0)
    file = rng.standard_normal((16, 3)).astype(np.float32) + np.float32(100)  # the same for all images does not count
    noise = rng.standard_normal((16, 3)).astype(np.float32)
    assert logits_error(file, file, file) == 0
    assert logits_error(file + 0.1 * noise, file, file) < 1
    assert logits_error(file + 0.3 * noise, file, file) > 1
    assert logits_error(file + 0.3 * noise, file, file - noise) < 1
    assert not logits_error(file * np.float32("nan"), file, file) <= 1


def test_another_class_is_too_much_where_the_class_of_the_file_leads_clearly() -> None:
    file = np.zeros((400, 3), np.float32)
    file[:, 0] = np.tile([1, -1], 200)
    found = file.copy()
    found[0] = [0, 1, 0]  # hardly changes the mean error
    assert logits_error(found, file, file) == float("inf")
    found[0] = [1, 0.9, 0]
    assert logits_error(found, file, file) < 1
