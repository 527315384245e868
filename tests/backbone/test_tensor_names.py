"""Names are matched with as few changes as possible."""

import torch

from prunus.backbone.tensor_names import left_over, without_prefixes

ONE = torch.zeros(1)


def test_a_prefix_that_the_network_has_itself_stays() -> None:
    tensors = {"backbone.conv.weight": ONE, "neck.weight": ONE}
    assert list(without_prefixes(tensors, ["backbone.conv.weight", "neck.weight"])) == list(tensors)
    wrapped = {f"model.{name}": tensor for name, tensor in tensors.items()}
    assert list(without_prefixes(wrapped, ["backbone.conv.weight", "neck.weight"])) == list(tensors)


def test_names_that_would_become_equal_stay_different() -> None:
    tensors = {"model.a": ONE, "a": ONE + 1}
    assert without_prefixes(tensors, ["a"])["a"] == 1
    assert set(without_prefixes(tensors, ["a"])) == {"model.a", "a"}
    assert set(without_prefixes({**tensors, "model.b": ONE}, ["a", "b"])) == {"model.a", "a", "model.b"}


def test_what_does_not_fit_at_all_keeps_its_names() -> None:
    assert list(without_prefixes({"module.x": ONE}, ["y"])) == ["module.x"]


def test_left_over_are_neither_weights_nor_classifier_nor_counters() -> None:
    names = ["conv.weight", "fc.weight", "conv.num_batches_tracked", "n_averaged", "stage.fc.weight", "own.bias"]
    assert left_over(names, ["conv.weight"], ["own.bias"]) == ["stage.fc.weight"]
    assert left_over(["fc.bias"], ["fc.weight"], []) == ["fc.bias"]
