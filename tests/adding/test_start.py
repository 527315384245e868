"""A new domain begins as the domain of the file that separates its classes best."""

import numpy as np
import torch

from prunus.adding.start import MOST_CANDIDATES, candidates_of, find_nearest, start_from_nearest
from prunus.learning.feed import DomainData
from prunus.torch_graph.file_network import FileNetwork
from tests.makers.additions import PREPROCESS, drawn_bundle, drawn_images, opened


def test_the_nearest_domain_separates_the_classes_best() -> None:
    images = drawn_images()
    network, labels = FileNetwork(drawn_bundle()).eval(), torch.from_numpy(images.labels)
    nearest = find_nearest(network, ("blind", "seeing"), images.images, labels, 2, PREPROCESS)
    assert nearest.domain == "seeing"
    assert nearest.accuracy > 0.9
    assert find_nearest(network, ("blind",), images.images, labels, 2, PREPROCESS).accuracy < 0.9


def test_of_many_domains_some_are_candidates_and_always_the_one_that_is_trained_again() -> None:
    names = [f"d{number}" for number in range(1000)]
    assert candidates_of(["a", "b"], "new") == ["a", "b"]
    chosen = candidates_of(names, "new")
    assert len(chosen) == MOST_CANDIDATES
    assert {"d0", "d999"} <= set(chosen)
    assert candidates_of(names, "d1") == sorted([*chosen, "d1"], key=names.index)


def test_the_new_domain_computes_what_the_nearest_one_does() -> None:
    bundle, images = drawn_bundle(), drawn_images()
    net = opened(bundle)
    found = start_from_nearest(net, [DomainData("new", PREPROCESS, False, images, None)])
    assert found["new"].domain == "seeing"
    prepared = (torch.from_numpy(images.images).float() / 255 - 0.5) / 0.25
    network = net.network
    assert isinstance(network, FileNetwork)
    with torch.no_grad():
        features = torch.func.functional_call(network.eval(), network.tensors_of("seeing"), (prepared,))
        expected = found["new"].classifier.logits(features)
        assert torch.allclose(net.eval()(prepared, "new"), expected, atol=1e-4)
        # with the statistics of these images too, as in training
        assert torch.allclose(net.train()(prepared, "new"), expected, atol=1e-3)


def test_the_new_domain_starts_with_the_masks_of_the_nearest_one() -> None:
    bundle = drawn_bundle()
    net = opened(bundle)
    start_from_nearest(net, [DomainData("new", PREPROCESS, False, drawn_images(), None)])
    assert net.switches is not None
    for layer in bundle.manifest.convs:
        found = net.switches.layer_masks()[f"convs.{layer}"][0, :, :, 0, 0].numpy()
        assert np.array_equal(found, bundle.mask("seeing", layer))
