"""The table of methods: what each lets a domain change, and which losses it adds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from prunus.backbone.zoo import Backbone
from prunus.errors import UnknownNameError
from prunus.masks.layout import switch_layout
from prunus.masks.network import MultiDomainNet
from prunus.masks.norms import DomainNorms
from prunus.masks.switches import KernelSwitches


@dataclass(frozen=True)
class Method:
    """One way to adapt a frozen backbone."""

    summary: str
    adapters: Callable[[nn.Module, int], list[nn.Module]]
    has_budget: bool
    has_sharing: bool


def _switches_and_norms(network: nn.Module, num_domains: int) -> list[nn.Module]:
    return [KernelSwitches(switch_layout(network), num_domains), DomainNorms(network, num_domains)]


def _nothing(network: nn.Module, num_domains: int) -> list[nn.Module]:
    return []


METHODS: dict[str, Method] = {
    "budget_aware": Method("kernel switches within a budget, shared between domains", _switches_and_norms, True, True),
    "ba2": Method("kernel switches within a budget, each domain for itself (BA²)", _switches_and_norms, True, False),
    "feature": Method("the frozen backbone with a classifier per domain", _nothing, False, False),
}


def find_method(name: str) -> Method:
    """Look up a method by name."""
    if name not in METHODS:
        raise UnknownNameError("method", name, METHODS)
    return METHODS[name]


def adapt(backbone: Backbone, classes: Mapping[str, Sequence[str]], method: str, seed: int = 0) -> MultiDomainNet:
    """Give a backbone to several domains (name -> class names) by one of the methods."""
    network = copy.deepcopy(backbone.network)  # freezing and training modes must not reach back to the caller's
    adapters = find_method(method).adapters(network, len(classes))
    with torch.random.fork_rng(devices=[]):  # the heads start the same whatever was drawn before
        torch.manual_seed(seed)
        return MultiDomainNet(network, backbone.probe.num_features, classes, adapters)
