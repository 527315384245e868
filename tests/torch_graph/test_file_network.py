"""A model file as a backbone: it computes the file's own domains, and its norms become scales and biases again."""

import numpy as np
import pytest
import torch
from torch.func import functional_call

from prunus.bundle.bundle import Bundle
from prunus.errors import BackboneError
from prunus.torch_graph.file_network import FileNetwork, conv_name
from tests.makers.graph_bundles import convolution, exact_logits, make_graph, random_bundle, varied_graph

SIZE = 12
IMAGES = np.random.default_rng(0).standard_normal((2, 3, SIZE, SIZE)).astype(np.float32)


def without_ones(bundle: Bundle) -> Bundle:
    return Bundle(bundle.manifest, {name: array for name, array in bundle.arrays.items() if not name.endswith(".ones")})


@pytest.mark.parametrize("seed", range(12))
def test_it_computes_the_domains_of_its_file(seed: int) -> None:
    bundle = without_ones(random_bundle(varied_graph(seed), SIZE, seed=seed))
    network = FileNetwork(bundle).double().eval()
    for domain in bundle.domains:
        tensors = {name: tensor.double() for name, tensor in network.tensors_of(domain).items()}
        with torch.no_grad():
            features = functional_call(network, tensors, (torch.from_numpy(IMAGES).double(),)).numpy()
        weight, bias = bundle.head(domain)
        expected = exact_logits(bundle, IMAGES, domain)
        assert np.abs(features @ weight.T + bias - expected).max() <= 1e-5 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("seed", range(6))
def test_norms_become_the_scales_and_biases_that_they_came_from(seed: int) -> None:
    bundle = without_ones(random_bundle(varied_graph(seed), SIZE, seed=seed))
    network = FileNetwork(bundle)
    folded = network.folded(network.tensors_of("b"))
    stored = {name.rpartition("/")[2] for name in bundle.arrays if name.startswith(("norm/b/", "shared/"))}
    assert stored <= {f"{number}.{role}" for number, role in folded}
    for (number, role), tensor in folded.items():
        expected = bundle.tensor("b", number, role)
        neutral = 1.0 if role == "scale" else 0.0
        assert np.abs(tensor - (neutral if expected is None else expected)).max() < 1e-5


def test_a_norm_with_statistics_becomes_what_it_computes() -> None:
    bundle = random_bundle(make_graph(convolution("one", [0], (4, 3))), SIZE, seed=1)
    arrays = {name: array for name, array in bundle.arrays.items() if not name.startswith(("norm/", "shared/"))}
    arrays["shared/0.scale"] = np.full(4, 2.0, np.float32)
    network = FileNetwork(Bundle(bundle.manifest, arrays))
    norm = network.norms["0"]
    assert isinstance(norm, torch.nn.BatchNorm2d)
    with torch.no_grad():
        for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
            assert tensor is not None
            tensor.copy_(torch.rand(4) + 0.5)
    folded = network.folded(network.state_dict())
    x = torch.rand(2, 4, 5, 5)
    with torch.no_grad():
        expected = norm.eval()(x)
    scale, bias = (torch.from_numpy(folded[0, role]).float()[:, None, None] for role in ("scale", "bias"))
    assert torch.allclose(x * scale + bias, expected, atol=1e-5)


def test_kernels_over_ones_become_part_of_the_bias() -> None:
    bundle = random_bundle(make_graph(convolution("one", [0], (2, 3))), SIZE, seed=1)
    arrays = {name: array for name, array in bundle.arrays.items() if not name.startswith(("norm/", "shared/"))}
    arrays |= {"shared/0.scale": np.array([2.0, 3.0], np.float32), "shared/0.ones": np.ones((2, 3, 3), np.float32)}
    network = FileNetwork(Bundle(bundle.manifest, arrays))
    assert network.tensors_of("a")["norms.0.bias"].tolist() == [18.0, 27.0]


def test_kernels_that_the_file_lacks_come_from_other_weights() -> None:
    bundle = random_bundle(make_graph(convolution("one.conv", [0], (5, 3))), SIZE, density=0.3, seed=2)
    others = torch.rand(5, 3, 3, 3)
    union = torch.from_numpy(bundle.union("one.conv"))
    plain, grown = (FileNetwork(bundle, given).state_dict() for given in (None, {"one.conv": others}))
    weight = grown[f"{conv_name('one.conv')}.weight"]
    assert torch.equal(weight[~union], others[~union])
    assert torch.equal(weight[union], plain[f"{conv_name('one.conv')}.weight"][union])
    assert not plain[f"{conv_name('one.conv')}.weight"][~union].any()


def test_a_layer_that_runs_in_two_ways_is_refused() -> None:
    graph = make_graph(convolution("twice", [0], (3, 3)), convolution("twice", [1], (3, 3), stride=(2, 2)))
    with pytest.raises(BackboneError, match="layer 'twice' runs twice, in two ways; no domain can be added"):
        FileNetwork(random_bundle(graph, SIZE))
