"""A new domain begins as the domain of the file that separates its classes best."""

import numpy as np
import torch

from prunus.adding.start import find_nearest, start_from_nearest
from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone
from prunus.bundle.bits import pack_bits
from prunus.bundle.bundle import Bundle
from prunus.data.loading import ImageSet
from prunus.images import Preprocess
from prunus.learning.feed import DomainData
from prunus.masks.network import MultiDomainNet
from prunus.methods.exact import Options
from prunus.methods.table import adapt
from prunus.torch_graph.file_network import FileNetwork
from tests.makers.graph_bundles import convolution, make_graph, random_bundle

SIZE = 12
PREPROCESS = Preprocess(size=SIZE, resize=SIZE, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


def drawn_bundle() -> Bundle:
    """Return a model whose domain `blind` uses no kernels, so that its features say nothing."""
    graph = make_graph(
        convolution("first", [0], (8, 3), activation="relu"),
        convolution("second", [1], (8, 8), stride=(2, 2), activation="relu"),
        {"op": "mean", "inputs": (2,)},
    )
    bundle = random_bundle(graph, SIZE, ("blind", "seeing"), 0.8, seed=3)
    arrays = {name: array for name, array in bundle.arrays.items() if not name.startswith(("norm/", "shared/"))}
    rng = np.random.default_rng(0)
    for layer, number in (("first", 0), ("second", 1)):
        count = len(arrays[f"kernels/{layer}"])
        arrays[f"mask/blind/{layer}"] = pack_bits(np.zeros(count, np.bool_))
        for domain in bundle.domains:
            arrays[f"norm/{domain}/{number}.scale"] = rng.uniform(0.5, 2.0, 8).astype(np.float32)
            arrays[f"norm/{domain}/{number}.bias"] = rng.uniform(-0.5, 0.5, 8).astype(np.float32)
    return Bundle(bundle.manifest, arrays)


def drawn_images(count: int = 80) -> ImageSet:
    """Return stripes and noise, with labels."""
    rng = np.random.default_rng(1)
    labels = np.arange(count) * 2 // count
    images = rng.integers(0, 255, (count, 3, SIZE, SIZE)).astype(np.uint8)
    images[labels == 1, :, ::2] = 0
    return ImageSet(images, labels)


def opened(bundle: Bundle) -> MultiDomainNet:
    network = FileNetwork(bundle)
    kept = {name: torch.from_numpy(union) for name, union in network.unions().items()}
    backbone = Backbone("m.prunus", network, PREPROCESS, probe_network(network, SIZE), kept=kept)
    return adapt(backbone, {"new": ["noise", "stripes"]}, "exact", options=Options(weights="frozen"))


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
