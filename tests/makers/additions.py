"""A model file with one domain that sees and one that does not, images, and a network that learns them."""

import numpy as np
import torch

from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.coding.bits import pack_bits
from prunus.data.loading import ImageSet
from prunus.granularity import Granularity
from prunus.images import Preprocess
from prunus.masks.network import MultiDomainNet
from prunus.methods.exact import Options
from prunus.methods.table import adapt
from prunus.torch_graph.file_network import FileNetwork
from tests.makers.graph_bundles import convolution, make_graph, random_bundle

SIZE = 12
PREPROCESS = Preprocess(size=SIZE, resize=SIZE, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


def drawn_bundle(kernel: int = 3) -> Bundle:
    """Return a model whose domain `blind` uses no kernels, so that its features say nothing."""
    second = {"kernel": (kernel, kernel), "pads": (kernel // 2,) * 4}
    graph = make_graph(
        convolution("first", [0], (8, 3), activation="relu"),
        convolution("second", [1], (8, 8), stride=(2, 2), activation="relu", **second),
        {"op": "mean", "inputs": (2,)},
    )
    bundle = random_bundle(graph, SIZE, ("blind", "seeing"), 0.6, seed=3)
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


def opened(
    bundle: Bundle, others: dict[str, torch.Tensor] | None = None, granularity: Granularity = "kernel"
) -> MultiDomainNet:
    """Return the network of a domain that is added to a model; with other weights, the model may grow."""
    network = FileNetwork(bundle, others)
    kept = {name: torch.from_numpy(union) for name, union in network.unions().items()}
    backbone = Backbone("m.prunus", network, PREPROCESS, probe_network(network, SIZE), kept=kept)
    options = Options(weights="trained" if others else "frozen", granularity=granularity)
    return adapt(backbone, {"new": ["noise", "stripes"]}, "exact", options=options)
