"""Networks of timm, by name, with weights from the hub."""

import difflib
import logging
import sys
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from prunus.backbone.own.registry import TIMM_PREFIX
from prunus.errors import BackboneError, MissingExtraError, UnknownNameError, first_line

STEPS = (32, 16)  # pixels: most networks accept multiples of one of these
EXAMPLES = (f"{TIMM_PREFIX}resnet50", f"{TIMM_PREFIX}deit_tiny_patch16_224")  # where no name is similar
MOST_NAMES = 5
MOST_TRIES = 6  # of each step in each direction, to find a size that works


def check_timm_name(name: str) -> None:
    """Refuse a network that timm does not know."""
    if not _import_timm().is_model(name.removeprefix(TIMM_PREFIX)):
        found = timm_names(name)
        is_family = any(other.startswith(f"{name}_") for other in found)  # whose first is no likelier than others
        near = None if is_family else found
        raise UnknownNameError("timm network", name, found or EXAMPLES, heading="for example", near=near)


def build_timm(name: str, size: int | None = None) -> nn.Module:
    """Build a timm network without its classifier, for images of some size (default: the network's own)."""
    check_timm_name(name)
    try:
        network = _create(name, size)
    except Exception as error:  # timm checks sizes in many ways
        if size is None:
            raise
        raise refused_size(name, size, first_line(error)) from None
    network.reset_classifier(0)  # type: ignore[operator]  # timm's way to ask for features
    return network


def _create(name: str, size: int | None) -> nn.Module:
    timm = _import_timm()
    network: nn.Module
    for settings in _settings(size):
        try:
            network = timm.create_model(name.removeprefix(TIMM_PREFIX), pretrained=False, **settings)
        except TypeError as error:
            if not settings or "img_size" not in str(error):
                raise
        else:
            return network
    raise AssertionError("the last settings are none")


def _settings(size: int | None) -> list[dict[str, object]]:
    """List what tells a network its size, as some families know it; those that know nothing of it take any size.

    Some would resize their position embeddings in every pass; they are resized once instead.
    """
    sized: list[dict[str, object]] = [{"img_size": size, "dynamic_img_size": False}, {"img_size": size}]
    return [*(sized if size is not None else []), {}]


def refused_size(name: str, size: int, reason: str) -> BackboneError:
    """Return the error of a network that cannot read images of some size; it names sizes near it that work."""
    sizes = ", ".join(map(str, working_sizes(name, size)))
    advice = f"set backbone.size to one that works, such as {sizes}" if sizes else "choose another network"
    return BackboneError(f"{name} does not accept images of {size} x {size} pixels; {advice} (it says: {reason})")


def working_sizes(name: str, size: int) -> list[int]:
    """Return the nearest smaller and larger size that a network accepts, and its own; nothing is computed."""
    own = timm_preprocess(name)[0]
    below = {step * number for step in STEPS for number in range((size - 1) // step, 0, -1)[:MOST_TRIES]}
    above = {step * number for step in STEPS for number in range(size // step + 1, size // step + 1 + MOST_TRIES)}
    nearest_first = ([own], sorted(below, reverse=True), sorted(above))
    found = (next((size for size in sizes if accepts(name, size)), None) for sizes in nearest_first)
    return sorted({size for size in found if size})


@torch.no_grad()
def accepts(name: str, size: int) -> bool:
    """Return whether a network of timm reads images of some size; nothing is computed."""
    try:
        with torch.device("meta"):  # shapes only
            _create(name, size).eval()(torch.zeros(1, 3, size, size))
    except Exception:  # whatever it is, this size does not work
        return False
    return True


def fit_timm(network: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Resize the position embeddings of a weights file to those of a network, as timm does; the rest stays."""
    targets = network.state_dict()
    fits = all(tensors[key].shape == target.shape for key, target in targets.items() if key in tensors)
    convert = getattr(sys.modules[type(network).__module__], "checkpoint_filter_fn", None)
    if fits or convert is None:
        return tensors
    converted: dict[str, Tensor] = convert(dict(tensors), network)
    return converted


def timm_head(name: str) -> frozenset[str]:
    """Return the names of the tensors of a timm network's classifier."""
    timm = _import_timm()
    with torch.device("meta"):  # names only
        network: nn.Module = timm.create_model(name.removeprefix(TIMM_PREFIX), pretrained=False)
        whole = set(network.state_dict())
        network.reset_classifier(0)  # type: ignore[operator]
        return frozenset(whole - set(network.state_dict()))


def timm_names(name: str) -> list[str]:
    """List some timm networks that begin with a name, or else those whose names, or their beginnings, are similar."""
    try:
        timm = _import_timm()
    except MissingExtraError:
        return []
    wanted, known = name.removeprefix(TIMM_PREFIX), sorted(timm.list_models(), key=len)
    longer = [other for other in known if other.startswith(f"{wanted}_")]
    beginnings: dict[str, str] = {}  # of names up to each underscore -> the shortest such name
    for other in known:
        for beginning in accumulate(other.split("_"), "{}_{}".format):
            beginnings.setdefault(beginning, other)
    similar = [beginnings[each] for each in difflib.get_close_matches(wanted, beginnings, n=MOST_NAMES)]
    return [TIMM_PREFIX + other for other in dict.fromkeys((longer or similar)[:MOST_NAMES])]


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
