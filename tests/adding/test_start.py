"""A new domain begins as the domain of the file that separates its classes best."""

import numpy as np
import torch

from prunus.adding.start import find_nearest, start_from_nearest
from prunus.learning.feed import DomainData
from prunus.torch_graph.file_network import FileNetwork
from tests.makers.additions import PREPROCESS, drawn_bundle, drawn_images, opened


def test_the_nearest_domain_separates_the_classes_best() -> None:
    images = drawn_images()
    nearest = find_nearest(
        FileNetwork(drawn_bundle()).eval(), images.images, torch.from_numpy(images.labels), 2, PREPROCESS
    )
    assert nearest.domain == "seeing"
    assert nearest.accuracy > 0.9


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
