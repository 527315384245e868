"""A new domain begins as the domain of the file that separates its classes best."""

import numpy as np
import pytest
import torch

from prunus.adding import start
from prunus.adding.start import Sample, candidates_of, find_nearest, start_from_nearest
from prunus.bundle.bundle import Bundle
from prunus.editing.domains import DomainParts, add_domain, remove_domain
from prunus.learning.feed import DomainData
from prunus.torch_graph.file_network import FileNetwork
from tests.makers.additions import PREPROCESS, drawn_bundle, drawn_images, opened


def sample() -> Sample:
    images = drawn_images()
    return Sample(images.images, torch.from_numpy(images.labels), 2, PREPROCESS)


def test_the_nearest_domain_separates_the_classes_best() -> None:
    network = FileNetwork(drawn_bundle()).eval()
    nearest = find_nearest(network, ("blind", "seeing"), sample())
    assert nearest.domain == "seeing"
    assert nearest.accuracy > 0.9
    assert find_nearest(network, ("blind",), sample()).accuracy < 0.9


def test_of_many_domains_those_that_separate_some_images_best_are_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at all domains of the file, and always at the one that is trained again."""
    monkeypatch.setattr(start, "MOST_CANDIDATES", 2)
    bundle = drawn_bundle()
    network = FileNetwork(bundle).eval()
    assert candidates_of(network, sample(), "new") == ["blind", "seeing"]
    parts = [named_parts(bundle, name) for name in ("blind", "blind", "blind")]
    for number, part in enumerate(parts):
        bundle = add_domain(bundle, f"blind{number}", part)
    bundle = remove_domain(add_domain(bundle, "last", named_parts(bundle, "seeing")), "seeing")
    network = FileNetwork(bundle).eval()
    chosen = candidates_of(network, sample(), "blind2")
    assert {"last", "blind2"} <= set(chosen)
    assert len(chosen) <= 3
    assert find_nearest(network, chosen, sample()).domain == "last"


def named_parts(bundle: Bundle, name: str) -> DomainParts:
    """Return the parts of a domain, to be added under another name."""
    convs, graph = bundle.manifest.convs, bundle.manifest.graph
    keys = [(number, role) for number in range(len(graph)) for role in ("scale", "bias")]
    tensors = {key: tensor for key in keys if (tensor := bundle.tensor(name, *key)) is not None}
    masks = {layer: bundle.mask(name, layer) for layer in convs}
    head = (bundle.arrays[f"head/{name}/weight"], bundle.arrays[f"head/{name}/bias"])
    return DomainParts(bundle.manifest.domains[name], masks, {}, tensors, head)  # type: ignore[arg-type]


def test_a_part_of_a_sample_is_evenly_chosen() -> None:
    part = sample().part(8)
    assert part.labels.tolist() == [0] * 4 + [1] * 4
    assert len(part.images) == 8
    assert len(sample().part(1000).images) == 80


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
