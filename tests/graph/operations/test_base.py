"""What all operations share: fields that cannot change, one shape for all inputs, and no tensors."""

import pytest
from pydantic import ValidationError

from prunus.errors import BundleError
from prunus.graph.operations.base import Activated, Operation

PLAIN = Operation(op="plain", inputs=(0, 1))


def test_an_operation_is_frozen_and_knows_all_its_keys() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        PLAIN.op = "other"
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Operation.model_validate({"op": "plain", "inputs": (0,), "colour": 3})
    with pytest.raises(ValidationError, match="finite number"):
        Activated(op="plain", inputs=(0,), slope=float("inf"))
    with pytest.raises(ValidationError, match="Input should be 'none'"):
        Activated.model_validate({"op": "plain", "inputs": (0,), "activation": "softplus"})


def test_inputs_have_one_shape_which_is_that_of_the_result() -> None:
    assert PLAIN.shape([(3, 4, 5), (3, 4, 5)]) == (3, 4, 5)
    with pytest.raises(BundleError, match=r"joins values of different shapes: \[\(3, 4, 5\), \(3, 4, 6\)\]"):
        PLAIN.shape([(3, 4, 5), (3, 4, 6)])


def test_without_other_words_no_channel_is_removed_and_no_tensor_is_needed() -> None:
    assert PLAIN.channel_rule == "mixed"
    assert not PLAIN.absorbs_zero
    assert PLAIN.tensors(7) == {}
    assert PLAIN.keeps_constants()
    assert PLAIN.on_uniform_images() is PLAIN
    assert Activated(op="plain", inputs=(0,)).activation == "none"
