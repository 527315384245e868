"""A model file comes back as a torch module that computes the same, trains, and can be exported."""

import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import prunus
from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import write_bundle
from prunus.errors import AccuracyWarning, UnknownNameError
from prunus.masks.network import MultiDomainNet
from prunus.runtime.predictor import Predictor
from prunus.torch_graph.network import TorchNetwork
from tests.makers.coded_bundles import integer_graph, random_coded_bundle
from tests.makers.masked_networks import TWO_DOMAINS, assert_same_logits, draw_tiny, packed
from tests.makers.odd_networks import odd_net

NO_CODINGS = {"scale": np.float32, "zero": np.uint8}


@dataclass(frozen=True)
class Model:
    """A masked network and its model file."""

    net: MultiDomainNet
    path: Path

    def load(self, domain: str | None = None) -> TorchNetwork:
        return prunus.load_network(self.path, domain)


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """Three layers, of which each domain uses about half the kernels."""
    backbone, net = odd_net(lambda m, x: m.c(m.act(m.norm(m.b(m.act(m.a(x)))))).flatten(1))
    draw_tiny(net, "half", torch.Generator().manual_seed(3))
    write_bundle(tmp_path / "m.prunus", packed(net, backbone, TWO_DOMAINS))
    return Model(net, tmp_path / "m.prunus")


def _images(count: int) -> Tensor:
    return torch.randn(count, 3, 9, 9, generator=torch.Generator().manual_seed(5))


@torch.no_grad()
def _logits(network: TorchNetwork, images: Floats, domain: str | None = None) -> Floats:
    logits: Floats = network(torch.from_numpy(images), domain).numpy()
    return logits


def test_a_loaded_network_has_the_logits_of_the_masked_network(model: Model) -> None:
    network = model.load()
    assert network.domains == ("a", "b")
    assert_same_logits(model.net, lambda images, domain: _logits(network, images, domain), exact=True)


def test_the_network_of_all_domains_and_of_one_agree_with_the_predictor(model: Model) -> None:
    images = _images(4).numpy()
    predictor = Predictor(model.path)
    for domain in predictor.domains:
        expected = predictor.logits(images, domain)
        alone = model.load(domain)
        assert alone.domains == (domain,)
        np.testing.assert_allclose(_logits(model.load(), images, domain), expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(_logits(alone, images), expected, rtol=0, atol=1e-5)
        assert sum(p.numel() for p in alone.parameters()) < sum(p.numel() for p in model.load().parameters())


@pytest.mark.parametrize("domain", [None, "a"])
def test_the_network_of_an_8_bit_file_warns_that_it_computes_with_floats(tmp_path: Path, domain: str | None) -> None:
    path = tmp_path / "eight.prunus"
    bundle = random_coded_bundle(integer_graph(1), 12, seed=1)
    write_bundle(path, bundle, "int8")
    images = np.random.default_rng(0).standard_normal((4, 3, 12, 12)).astype(np.float32)
    count = len(bundle.manifest.integers)
    with pytest.warns(AccuracyWarning, match=rf"computes {count} operations with 8-bit integers, but the module with"):
        network = prunus.load_network(path, domain)
    logits = _logits(network, images, None if domain else "a")
    assert np.abs(logits - Predictor(path).logits(images, "a")).max() > 1e-3
    floats = Bundle(
        bundle.manifest.with_graph(bundle.manifest.graph, ()),
        {name: array for name, array in bundle.arrays.items() if not name.startswith("coding/")},
    )
    for name in floats.domains:
        floats.arrays.update({f"coding/{name}/{role}": np.zeros(0, kind) for role, kind in NO_CODINGS.items()})
    write_bundle(path, floats, "int8")
    same = _logits(prunus.load_network(path, domain), images, None if domain else "a")  # without a warning
    np.testing.assert_allclose(same, Predictor(path).logits(images, "a"), rtol=0, atol=1e-4 * np.abs(same).max())


def test_an_unknown_or_missing_domain_lists_the_known(model: Model) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown domain 'c'.*a, b"):
        model.load("c")
    with pytest.raises(UnknownNameError, match=r"unknown domain 'c'.*a, b"):
        model.load()(_images(1), "c")
    with pytest.raises(UnknownNameError, match=r"unknown domain 'None'.*a, b"):
        model.load()(_images(1))


def test_training_one_domain_lowers_its_loss_and_leaves_masks_and_the_other_domains_kernels(model: Model) -> None:
    network = model.load()
    before = copy.deepcopy(network)
    images, labels = _images(16), torch.arange(16) % 2
    losses = []
    for _ in range(8):
        loss = F.cross_entropy(network(images, "a"), labels)
        losses.append(loss.item())
        parameters = list(network.parameters())
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                if gradient is not None:
                    parameter.sub_(gradient, alpha=0.05)
    assert losses[-1] < losses[0]
    for key, weight in network.weights.items():
        mask_DOI = network.get_buffer(f"mask_{key}")[..., 0, 0]
        assert torch.equal(mask_DOI, before.get_buffer(f"mask_{key}")[..., 0, 0])
        unused_OI = ~mask_DOI[0]
        assert unused_OI.any()
        assert torch.equal(weight[unused_OI], before.weights[key][unused_OI])
    assert any(not torch.equal(weight, before.weights[key]) for key, weight in network.weights.items())
    assert torch.equal(network.get_parameter("heads.1.weight"), before.get_parameter("heads.1.weight"))
    for key, tensor_D in network.tensors.items():
        assert torch.equal(tensor_D[1], before.tensors[key][1])


def test_masks_are_saved_and_are_not_parameters(model: Model) -> None:
    network = model.load()
    masks = [name for name in network.state_dict() if name.startswith("mask_")]
    assert len(masks) == len(network.weights) == 3
    assert not set(masks) & {name for name, _ in network.named_parameters()}
    emptied = copy.deepcopy(network)
    for parameter in emptied.parameters():
        parameter.data.zero_()
    emptied.load_state_dict(network.state_dict())
    assert torch.equal(emptied(_images(2), "b"), network(_images(2), "b"))


@pytest.mark.slow
def test_the_network_of_one_domain_can_be_exported(model: Model) -> None:
    alone = model.load("a").eval()
    images = _images(2)
    exported = torch.export.export(alone, (images,))
    torch.testing.assert_close(exported.module()(images), alone(images))
