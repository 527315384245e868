"""What a domain has learned inside a model file is stored as the file needs it."""

import numpy as np
import torch

from prunus.adding.result import learned_parts
from prunus.adding.start import start_from_nearest
from prunus.bundle.manifest import DomainEntry
from prunus.editing.domains import add_domain
from prunus.learning.feed import DomainData
from prunus.masks.network import MultiDomainNet
from prunus.runtime.native_engine import NativeEngine
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.additions import PREPROCESS, SIZE, drawn_bundle, drawn_images, opened

ENTRY = DomainEntry(classes=("noise", "stripes"), preprocess=PREPROCESS)
IMAGES = np.random.default_rng(2).standard_normal((5, 3, SIZE, SIZE)).astype(np.float32)


@torch.no_grad()
def disturb(net: MultiDomainNet) -> None:
    """Change everything that the domain has learned, as training would."""
    generator = torch.Generator().manual_seed(0)
    for name, tensor in (*net.adapter_list.named_parameters(), *net.heads.named_parameters()):
        scale = 2e-3 if "scores" in name else 0.3
        tensor.add_(scale * torch.randn(tensor.shape, generator=generator))
    for buffer in net.adapter_list.buffers():
        if buffer.is_floating_point():
            buffer.add_(torch.rand(buffer.shape, generator=generator))


def logits(net: MultiDomainNet) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    with torch.no_grad():
        found: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = net.eval()(torch.from_numpy(IMAGES), "new").numpy()
    return found


def test_the_file_answers_as_the_network_that_learned() -> None:
    bundle = drawn_bundle()
    net = opened(bundle)
    start_from_nearest(net, [DomainData("new", PREPROCESS, False, drawn_images(), None)])
    disturb(net)
    larger = add_domain(bundle, "new", learned_parts(net, "new", ENTRY))
    for engine in (NumpyEngine(larger), NativeEngine(larger)):
        assert np.allclose(engine.logits(IMAGES, "new"), logits(net), atol=1e-4)
    for layer in bundle.manifest.convs:
        used = larger.union(layer)
        assert (bundle.union(layer) >= used).all()
        assert np.array_equal(larger.weight(layer, used), bundle.weight(layer, used))


def test_a_domain_of_blocks_uses_the_kernels_of_its_blocks_that_the_file_has() -> None:
    bundle = drawn_bundle(kernel=1)
    net = opened(bundle, granularity="1x4")
    start_from_nearest(net, [DomainData("new", PREPROCESS, False, drawn_images(), None)])
    disturb(net)
    larger = add_domain(bundle, "new", learned_parts(net, "new", ENTRY))
    for engine in (NumpyEngine(larger), NativeEngine(larger)):
        assert np.allclose(engine.logits(IMAGES, "new"), logits(net), atol=1e-4)
    used, has = larger.mask("new", "second"), bundle.union("second")
    assert not (used & ~has).any()
    assert 0 < used.sum() < has.sum()
    for first in (0, 4):
        block = slice(first, first + 4)
        on = used[:, block].any(axis=1)
        assert np.array_equal(used[on, block], has[on, block])


def test_kernels_that_were_added_and_trained_are_stored() -> None:
    bundle = drawn_bundle()
    others = {layer: torch.rand(bundle.weight(layer, bundle.union(layer)).shape) for layer in bundle.manifest.convs}
    net = opened(bundle, others)
    disturb(net)
    larger = add_domain(bundle, "new", learned_parts(net, "new", ENTRY))
    for engine in (NumpyEngine(larger), NativeEngine(larger)):
        assert np.allclose(engine.logits(IMAGES, "new"), logits(net), atol=1e-4)
    added = {layer: larger.union(layer) & ~bundle.union(layer) for layer in bundle.manifest.convs}
    assert sum(int(mask.sum()) for mask in added.values()) > 0
    for layer, mask in added.items():
        trained, given = larger.weight(layer, mask)[mask], others[layer].numpy()[mask]
        assert not (trained == given).any()
        kept = bundle.union(layer) & larger.union(layer)
        assert np.array_equal(larger.weight(layer, kept), bundle.weight(layer, kept))


def test_kernels_that_nothing_reads_are_off() -> None:
    bundle = drawn_bundle()
    net = opened(bundle)
    with torch.no_grad():
        assert net.switches is not None
        net.switches.layout.views(net.switches.scores_DM)["convs.second"][0, :, 3] = -1.0
    parts = learned_parts(net, "new", ENTRY)
    assert not parts.masks["second"][:, 3].any()
    assert not parts.masks["first"][3].any()
    larger = add_domain(bundle, "new", parts)
    assert np.allclose(NumpyEngine(larger).logits(IMAGES, "new"), logits(net), atol=1e-5)
