"""Write a bundle of floats as an 8-bit one, once it is known which of its operations compute with integers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from prunus.arrays import Array, Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.dtypes import encode
from prunus.bundle.eight_bits.splitting import Split, split_activations
from prunus.graph.operations import Conv
from prunus.integers.steps import Codes
from prunus.quantizing.calibration import Calibration, unwatched
from prunus.quantizing.correcting import Shifts, bias_shifts
from prunus.quantizing.images import Loading, Pictures
from prunus.quantizing.weights import WeightRule, code_weights


@dataclass(frozen=True)
class Coder:
    """A bundle of floats with the codes of its weights and the codings of its values.

    Args:
        weights: kernels/, scale/ and head/ arrays.
        shifts: what the biases of convolutions gain to make up for rounded weights and values. They fit the operations
            in integers and the wide layers that they were measured with, and no others.
    """

    bundle: Bundle
    calibration: Calibration
    weights: Mapping[str, Array]
    shifts: Shifts = field(default_factory=dict)

    def corrected(
        self,
        images: Mapping[str, Pictures],
        integers: Collection[int],
        wide: Collection[str] = (),
        watch: Loading = unwatched,
    ) -> Coder:
        """Return a coder whose biases keep the mean of every channel on these images, in one choice of integers."""
        coded = replace(self, shifts={}).coded(integers, wide)
        return replace(self, shifts=bias_shifts(self.bundle, coded, integers, images, watch))

    def coded(self, integers: Collection[int], wide: Collection[str] = ()) -> Bundle:
        """Return the 8-bit bundle in which these operations compute with integers and these layers stay float16."""
        split = split_activations(self.bundle, integers)
        arrays = {n: array for n, array in split.bundle.arrays.items() if not n.startswith(("kernels/", "head/"))}
        arrays |= {**self.weights, **self.calibration.arrays(split), **self._biases(split)}
        for layer in wide:
            arrays[f"kernels/{layer}"] = encode(self.bundle.kernels(layer), "float16")
            del arrays[f"scale/{layer}"]
        manifest = split.bundle.manifest
        kept = tuple(layer for layer in manifest.convs if layer in set(wide))
        return Bundle(manifest.with_graph(manifest.graph, manifest.integers, kept), arrays)

    def _biases(self, split: Split) -> dict[str, Array]:
        """Return the biases that are moved."""
        arrays: dict[str, Array] = {}
        for number, (origin, operation) in enumerate(zip(split.origins, split.bundle.manifest.graph, strict=True)):
            if origin.is_activation or not isinstance(operation, Conv):
                continue
            for domain in split.bundle.domains:
                shift = self.shifts.get((domain, origin.number))
                if shift is not None:
                    name = f"norm/{domain}/{number}.bias"
                    arrays[name] = split.bundle.arrays[name].astype(np.float32) + shift
        return arrays


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
