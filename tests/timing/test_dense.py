"""The dense network behind a model file, and networks that no file can hold."""

import pytest

import prunus
from prunus.config import BackboneChoice
from prunus.measure.bundle_cost import bundle_costs
from prunus.timing.dense import dense_bundle, file_warning, why_not_a_file
from tests.makers.graph_bundles import random_bundle, varied_graph


@pytest.mark.parametrize("name", ["wrn28_4", "timm/resnet18"])
def test_a_network_of_known_operations_can_be_written(name: str) -> None:
    assert why_not_a_file(BackboneChoice(name=name, weights="random", size=32)) is None


def test_a_network_with_an_unknown_operation_is_named_with_it() -> None:
    reason = why_not_a_file(BackboneChoice(name="timm/convnextv2_atto", weights="random", size=32))
    assert reason is not None
    assert "GlobalResponseNorm" in reason
    assert "prunus evaluate" in reason


def test_a_network_that_can_be_written_at_its_own_size_is_named_with_it() -> None:
    reason = why_not_a_file(BackboneChoice(name="timm/swin_tiny_patch4_window7_224", weights="random", size=64))
    assert reason == (
        "at 64 px, the operation 'pad_1' reads numbers in an order that a graph cannot copy, such as after a flip, "
        "a roll or a list of positions; set backbone.size = 224, its own size, for a file"
    )


def test_an_unknown_network_is_an_error_and_not_a_network_without_a_file() -> None:
    with pytest.raises(prunus.UnknownNameError, match="did you mean 'timm/resnet18'"):
        why_not_a_file(BackboneChoice(name="resnet18"))


def test_only_users_who_may_expect_a_file_are_warned() -> None:
    backbone = {"name": "timm/convnextv2_atto", "weights": "random", "size": 32}
    packable = prunus.parse_recipe({"backbone": backbone, "domains": ["data/birds"], "method": "union"})
    warning = file_warning(packable)
    assert warning is not None
    assert warning.startswith("this network can be trained and measured, but not written as a model file: ")
    assert file_warning(packable.model_copy(update={"backbone": BackboneChoice(name="wrn14_2")})) is None
    assert (
        file_warning(prunus.parse_recipe({"backbone": backbone, "domains": ["data/birds"], "method": "taps"})) is None
    )


def test_the_dense_bundle_uses_every_kernel_and_the_first_domains_classes() -> None:
    pruned = random_bundle(varied_graph(3), 12, ("a", "b"), density=0.5, seed=3).manifest
    manifest = pruned.model_copy(update={"backbone": "wrn14_2", "image_size": 32})
    bundle = dense_bundle(manifest)
    costs = bundle_costs(bundle)
    assert (costs.usage("dense"), costs.union(), costs.sparsity()) == (1.0, 1.0, 0.0)
    assert bundle.manifest.image_size == 32
    assert bundle.manifest.domains["dense"].classes == pruned.domains["a"].classes
