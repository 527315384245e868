"""8-bit model files whose domains share most kernels, so that their masks are coded together."""

import numpy as np

from prunus.bundle.bundle import Bundle
from prunus.bundle.coding.bits import pack_bits
from tests.makers.coded_bundles import random_coded_bundle
from tests.makers.graph_bundles import convolution, make_graph

GRAPH = make_graph(
    convolution("stem", [0], (24, 3), activation="relu"),
    {"op": "pool", "inputs": (1,), "kind": "max", "kernel": (2, 2), "stride": (2, 2)},
    convolution("next", [2], (24, 24), activation="relu"),
    convolution("last", [3], (9, 24)),
)


def sharing_bundle(seed: int = 0) -> Bundle:
    """Return a coded bundle in which the second domain leaves a tenth of the kernels of the first."""
    bundle = random_coded_bundle(GRAPH, 8, seed=seed)
    rng = np.random.default_rng(seed)
    arrays = dict(bundle.arrays)
    first, *others = bundle.domains
    for layer in bundle.manifest.convs:
        count = int(bundle.kept(layer).sum())
        arrays[f"mask/{first}/{layer}"] = pack_bits(np.ones(count, np.bool_))
        for domain in others:
            arrays[f"mask/{domain}/{layer}"] = pack_bits(rng.random(count) > 0.1)
    return Bundle(bundle.manifest, arrays)


def masks_of(bundle: Bundle) -> list[list[list[bool]]]:
    """Return the masks over the kept kernels, by layer and domain."""
    return [mask_DK.tolist() for mask_DK in bundle.kept_masks()]
