"""What cannot be kept is refused before training, judged by the network as it will be after training."""

from __future__ import annotations

import re
from itertools import pairwise
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone
from prunus.bundle.file import bundle_size
from prunus.checkpoints.provenance import domain_entries, provenance
from prunus.config import MethodChoice
from prunus.errors import BundleError, RecipeError
from prunus.lowering.pack import pack
from prunus.masks.network import MultiDomainNet
from prunus.methods.costs import dense_costs
from prunus.methods.table import adapt
from prunus.recipes import parse_recipe
from prunus.torch_graph.file_network import FileNetwork
from prunus.training.promise import LONG, as_if_trained, least_bytes, make_growth_keeper, make_keeper
from tests.makers.additions import PREPROCESS, SIZE, drawn_bundle, opened
from tests.makers.drawn_budgets import Drawn, draw_case, stir
from tests.makers.tiny_training import CLASSES, tiny_backbone


def _drawn(seed: int = 3) -> Drawn:
    """Return an untrained network of several domains, whose norms are all alike."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    while len((drawn := draw_case(rng, "kernel")).net.domains) < 3 or len(drawn.backbone.probe.positions) < 2:
        pass
    return Drawn(adapt(drawn.backbone, drawn.identity.classes, "exact"), drawn.backbone, drawn.identity)


def _size(drawn: Drawn, net: MultiDomainNet) -> int:
    return bundle_size(pack(net, drawn.backbone, domain_entries(drawn.identity), provenance(drawn.identity, LONG)))


def test_a_copy_as_if_trained_is_as_large_as_a_trained_network_and_answers_nearly_the_same() -> None:
    drawn = _drawn()
    copy = as_if_trained(drawn.net)
    before = _size(drawn, drawn.net)
    size = _size(drawn, copy)
    assert size > before  # norms that are alike are stored once
    for first, second in pairwise(copy.domains):
        norms = [name for name in copy.tensors(first) if name.endswith("running_mean")]
        assert norms
        assert all(not torch.equal(copy.tensors(first)[name], copy.tensors(second)[name]) for name in norms)
    images = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    for domain in copy.domains:
        answers = [net.eval()(images, domain) for net in (drawn.net, copy)]
        torch.testing.assert_close(answers[0], answers[1], rtol=0.1, atol=0.05)
    stir(drawn.net, np.random.default_rng(0))
    assert drawn.net.switches is not None
    drawn.net.switches.scores_DM.data.fill_(1.0)  # all kernels, as in the copy
    assert _size(drawn, drawn.net) == size


def test_biases_that_training_will_change_are_counted_though_they_begin_at_zero() -> None:
    backbone = tiny_backbone()
    with torch.no_grad():
        backbone.network.get_parameter("0.bias").zero_()
    net = adapt(backbone, CLASSES, "exact")
    assert not net.tensors("a")["0.bias"].any()
    copied = as_if_trained(net).tensors("a")
    assert copied["0.bias"].any()
    assert torch.equal(copied["3.bias"], net.tensors("a")["3.bias"])


def test_a_file_that_fits_only_while_all_norms_are_alike_is_refused() -> None:
    drawn = _drawn()
    with pytest.raises(RecipeError, match=r"to at least \d+$") as caught:
        make_keeper(drawn.net, drawn.backbone, drawn.with_budget({"bytes": 100}).identity)
    least = int(str(caught.value).split()[-1])
    keeper = make_keeper(drawn.net, drawn.backbone, drawn.with_budget({"bytes": least}).identity)
    assert keeper is not None
    alike = keeper.smallest().bytes
    assert alike is not None
    assert alike < least
    with pytest.raises(RecipeError, match="to at least"):
        make_keeper(drawn.net, drawn.backbone, drawn.with_budget({"bytes": least - 1}).identity)


def test_a_network_whose_file_would_be_too_costly_is_refused_with_what_else_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = _drawn()
    reason = "the model cannot be written: classifying one image would take up to 2,000 MB of memory"
    monkeypatch.setattr("prunus.training.promise.refuse_unreachable", Mock(side_effect=BundleError(reason)))
    with pytest.raises(RecipeError) as refused:
        make_keeper(drawn.net, drawn.backbone, drawn.identity)
    assert str(refused.value).startswith(f"{reason}; choose a smaller network, or train without a file")


@pytest.mark.parametrize("unit", ["kernels", "weights"])
def test_a_share_that_is_too_small_is_refused_with_the_smallest_share(unit: str) -> None:
    drawn = _drawn()
    with pytest.raises(
        RecipeError, match=rf"^the budget of 0 of \d+ {unit} cannot be kept.*budget\.{unit} to"
    ) as caught:
        make_keeper(drawn.net, drawn.backbone, drawn.with_budget({unit: 1e-9}).identity)
    least = float(str(caught.value).split()[-1])
    assert least * dense_costs(drawn.backbone).dense_weights() >= 1
    keeper = make_keeper(drawn.net, drawn.backbone, drawn.with_budget({unit: least}).identity)
    assert keeper is not None
    keeper.finish()
    assert keeper.limits.are_kept(keeper.usage())


def test_all_limits_that_cannot_be_kept_are_refused_at_once_by_their_keys() -> None:
    drawn = _drawn()
    first, second, *_ = drawn.net.domains
    budget = {"kernels": 1e-9, "bytes": 100, "macs": {first: 1, second: 2}}
    with pytest.raises(RecipeError) as caught:
        make_keeper(drawn.net, drawn.backbone, drawn.with_budget(budget).identity)
    refusal = str(caught.value)
    assert f"100 bytes, 1 MAC for domain '{first}' and 2 MACs for domain '{second}' cannot be kept" in refusal
    assert "(one kernel per layer stays, kernels that nothing reads do not count, and the size has a reserve" in refusal
    assert "this network" not in refusal
    keys = re.findall(r"budget\.([\w.]+) to at least ([^ ,]+)", refusal)
    assert [key for key, _ in keys] == ["kernels", "bytes", f"macs.{first}", f"macs.{second}"]
    least = {key: float(value) for key, value in keys}
    macs = {name: int(least[f"macs.{name}"]) for name in (first, second)}
    kept = {"kernels": least["kernels"], "bytes": int(least["bytes"]), "macs": macs}
    assert make_keeper(drawn.net, drawn.backbone, drawn.with_budget(kept).identity) is not None


def test_a_limit_that_all_domains_have_is_refused_once() -> None:
    drawn = _drawn()
    with pytest.raises(RecipeError, match=r"^the budget of 1 MAC cannot be kept.*; set budget\.macs to at least \d+$"):
        make_keeper(drawn.net, drawn.backbone, drawn.with_budget({"macs": 1}).identity)


def test_methods_without_a_promise_have_no_keeper() -> None:
    drawn = _drawn()
    recipe = drawn.identity.recipe.model_copy(update={"method": MethodChoice(name="union")})
    net = adapt(drawn.backbone, drawn.identity.classes, "union")
    assert make_keeper(net, drawn.backbone, drawn.identity.model_copy(update={"recipe": recipe})) is None


@pytest.mark.parametrize(("needed", "least"), [(97, 97), (100, 101), (990, 990), (1000, 1002)])
def test_the_smallest_file_is_found_with_its_own_number_in_it(needed: int, least: int) -> None:
    sizes = {97: 95, 100: 98, 990: 987, 1000: 998}  # without the number
    assert least_bytes(needed, lambda size: sizes[needed] + len(str(size))) == least


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "set backbone.original"),
        ({"budget": {"bytes": "1 MB"}}, "for one new domain, by a share of its kernels"),
        ({"granularity": "1x4"}, "grows by single kernels"),
    ],
)
def test_a_model_file_that_cannot_grow_as_asked_is_refused(changes: dict[str, object], message: str) -> None:
    backbone = {"name": "m.prunus"} | ({"original": "pretrained"} if changes else {})
    content = {"backbone": backbone, "domains": ["new"], "method": "exact", "budget": 0.05}
    net = opened(drawn_bundle(), {})
    network = net.network
    assert isinstance(network, FileNetwork)
    kept = {name: torch.from_numpy(union) for name, union in network.unions().items()}
    opened_file = Backbone("m.prunus", network, PREPROCESS, probe_network(network, SIZE), kept=kept)
    with pytest.raises(RecipeError, match=message):
        make_growth_keeper(net, opened_file, parse_recipe(content | changes))
