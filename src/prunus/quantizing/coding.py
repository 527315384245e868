"""Write a bundle of floats as an 8-bit one, once it is known which of its operations compute with integers."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from prunus.arrays import Array, Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.dtypes import encode
from prunus.bundle.eight_bits.splitting import split_activations
from prunus.integers.steps import Codes
from prunus.quantizing.codings import Calibration
from prunus.quantizing.weights import WeightRule, code_weights


@dataclass(frozen=True)
class Coder:
    """A bundle of floats with the codes of its weights and the codings of its values."""

    bundle: Bundle
    calibration: Calibration
    weights: Mapping[str, Array]  # kernels/, scale/ and head/ arrays

    def coded(self, integers: Collection[int], wide: Collection[str] = ()) -> Bundle:
        """Return the 8-bit bundle in which these operations compute with integers and these layers stay float16."""
        split = split_activations(self.bundle, integers)
        arrays = {n: array for n, array in split.bundle.arrays.items() if not n.startswith(("kernels/", "head/"))}
        arrays |= {**self.weights, **self.calibration.arrays(split)}
        for layer in wide:
            arrays[f"kernels/{layer}"] = encode(self.bundle.kernels(layer), "float16")
            del arrays[f"scale/{layer}"]
        manifest = split.bundle.manifest
        kept = tuple(layer for layer in manifest.convs if layer in set(wide))
        return Bundle(manifest.with_graph(manifest.graph, manifest.integers, kept), arrays)


def make_coder(bundle: Bundle, calibration: Calibration, rule: WeightRule) -> Coder:
    """Code the weights of a bundle of floats."""
    weights: dict[str, Array] = {}
    for layer, conv in bundle.manifest.convs.items():
        outputs = bundle.kept_outputs(layer)
        codes, scale = code_weights(bundle.kernels(layer), outputs, conv.out_channels, rule)
        weights |= {f"kernels/{layer}": codes, f"scale/{layer}": scale}
    for domain in bundle.domains:
        weight, bias = bundle.head(domain)
        codes, scale = _code_rows(weight, rule)
        weights |= {f"head/{domain}/weight": codes, f"head/{domain}/scale": scale, f"head/{domain}/bias": bias}
    return Coder(bundle, calibration, weights)


def _code_rows(weight: Floats, rule: WeightRule) -> tuple[Codes, Floats]:
    return code_weights(weight, np.arange(len(weight)), len(weight), rule)
