"""Networks of timm, by name, with weights from the hub."""

import difflib
import logging
from pathlib import Path
from typing import Any

import torch
from torch import nn

from prunus.backbone.own.registry import TIMM_PREFIX
from prunus.errors import BackboneError, MissingExtraError, UnknownNameError


def build_timm(name: str) -> nn.Module:
    """Build a timm network without its classifier."""
    timm = _import_timm()
    model_name = name.removeprefix(TIMM_PREFIX)
    if not timm.is_model(model_name):
        raise UnknownNameError("timm network", name, timm_names(name) or [f"{TIMM_PREFIX}resnet50"])
    network: nn.Module = timm.create_model(model_name, pretrained=False)
    network.reset_classifier(0)  # type: ignore[operator]  # timm's way to ask for features
    return network


def timm_head(name: str) -> frozenset[str]:
    """Return the names of the tensors of a timm network's classifier."""
    timm = _import_timm()
    with torch.device("meta"):  # names only
        network: nn.Module = timm.create_model(name.removeprefix(TIMM_PREFIX), pretrained=False)
        whole = set(network.state_dict())
        network.reset_classifier(0)  # type: ignore[operator]
        return frozenset(whole - set(network.state_dict()))


def timm_names(name: str) -> list[str]:
    """List the timm networks with the most similar names."""
    try:
        timm = _import_timm()
    except MissingExtraError:
        return []
    return [
        TIMM_PREFIX + near
        for near in difflib.get_close_matches(name.removeprefix(TIMM_PREFIX), timm.list_models(), n=5)
    ]


def timm_preprocess(name: str) -> tuple[int, tuple[float, float, float], tuple[float, float, float]]:
    """Return the input size, mean and standard deviation that a timm network expects."""
    config = _config(name)
    return max(config.input_size[1:]), tuple(config.mean), tuple(config.std)


def fetch_timm_weights(name: str) -> Path:
    """Download a network's safetensors file from the hub, or find it in the local cache."""
    from huggingface_hub import hf_hub_download  # noqa: PLC0415  # optional package

    hub_id = _config(name).hf_hub_id
    advice = 'name a safetensors file on disk as backbone.weights, or set it to "random"'
    if not hub_id:
        raise BackboneError(f"timm has no hub weights for {name}; {advice}")
    client = logging.getLogger("huggingface_hub")
    level = client.level
    client.setLevel(logging.ERROR)  # it logs every retry; the error below says the outcome once
    try:
        return Path(hf_hub_download(hub_id, "model.safetensors"))
    except Exception as error:  # the hub client raises dozens of types
        reason = str(error).splitlines()[0]
        raise BackboneError(f"cannot fetch the weights of {name} ({hub_id}): {reason}; {advice}") from None
    finally:
        client.setLevel(level)


def _config(name: str) -> Any:  # noqa: ANN401  # timm is untyped
    return _import_timm().get_pretrained_cfg(name.removeprefix(TIMM_PREFIX))


def _import_timm() -> Any:  # noqa: ANN401  # timm is untyped
    try:
        import timm  # noqa: PLC0415  # optional package
    except ImportError:
        raise MissingExtraError("timm", "train", "a timm network") from None
    return timm
