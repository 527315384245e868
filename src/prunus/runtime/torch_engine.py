"""Run a bundle with torch: the architecture's own code, with a domain's tensors in the place of its weights."""

from __future__ import annotations

import threading

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from prunus.backbone.device import choose_device
from prunus.backbone.zoo import build_network
from prunus.bundle.bundle import Array, Bundle
from prunus.errors import BundleError
from prunus.images import Floats


class TorchEngine:
    """Holds one network without weights of its own and every domain's tensors, made when first asked for."""

    def __init__(self, bundle: Bundle, device: str = "cpu") -> None:
        self._bundle = bundle
        self._device = choose_device(device)
        with torch.device("meta"):  # shapes without memory: a file may name any network
            self._network = build_network(bundle.manifest.backbone)
        for domain in bundle.domains:
            self._check(domain)
        self._network = build_network(bundle.manifest.backbone).eval().requires_grad_(False).to(self._device)
        self._domains: dict[str, dict[str, Tensor]] = {}
        self._lock = threading.Lock()  # a functional call swaps tensors inside the one network

    @torch.inference_mode()
    def logits(self, images: Floats, domain: str) -> Floats:
        """Classify prepared images of one domain."""
        if domain not in self._domains:
            tensors = domain_tensors(self._bundle, domain, self._network)
            self._domains[domain] = {name: tensor.to(self._device) for name, tensor in tensors.items()}
        tensors = self._domains[domain]
        with self._lock:
            features = functional_call(self._network, tensors, (self._tensor(images),)).cpu()
        head = self._bundle.arrays
        logits: Floats = features.numpy() @ head[f"head/{domain}/weight"].T + head[f"head/{domain}/bias"]
        return logits

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def _check(self, domain: str) -> None:
        """Refuse a file whose arrays are not those of its architecture, before any of them is used."""
        stored = {**self._bundle.named("shared/"), **self._bundle.named(f"norm/{domain}/")}
        shapes = {name: array.shape for name, array in stored.items()}
        for layer, conv in self._bundle.manifest.convs.items():
            shapes[f"{layer}.weight"] = (conv.out_channels, conv.in_channels, *conv.kernel)
        wanted = {
            k: tuple(v.shape) for k, v in self._network.state_dict().items() if not k.endswith("num_batches_tracked")
        }
        folded = unit_statistics(self._network).keys() - shapes.keys()
        for name in sorted((wanted.keys() | shapes.keys()) - folded):
            if wanted.get(name) != shapes.get(name):
                raise BundleError(
                    f"the model does not fit its backbone {self._bundle.manifest.backbone!r}: {name!r} of {domain!r} "
                    f"should have the shape {wanted.get(name)}, has {shapes.get(name)}"
                )


def domain_tensors(bundle: Bundle, domain: str, network: nn.Module) -> dict[str, Tensor]:
    """Give everything that one domain puts in the place of a network's tensors."""
    weights = {f"{layer}.weight": bundle.weight(layer, bundle.mask(domain, layer)) for layer in bundle.manifest.convs}
    arrays = {**bundle.named("shared/"), **bundle.named(f"norm/{domain}/"), **weights}
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    return unit_statistics(network) | tensors


def unit_statistics(network: nn.Module) -> dict[str, Tensor]:
    """Give the statistics of norms that change nothing: a file holds norms as scale and bias."""
    found: dict[str, Tensor] = {}
    for name, module in network.named_modules():
        if isinstance(module, _BatchNorm) and module.running_var is not None:
            found[f"{name}.running_mean"] = torch.zeros(module.num_features)
            found[f"{name}.running_var"] = torch.full((module.num_features,), 1 - module.eps)
    return found
