"""The table of bundled networks; all others come from timm or from the user."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from prunus.backbone.card import BackboneCard, read_card
from prunus.backbone.held import held_note, hold_linears
from prunus.backbone.own.modules import build_own, check_pass
from prunus.backbone.own.registry import TIMM_PREFIX, Colour, OwnBackbone, find_own, own_names
from prunus.backbone.pickled import Note
from prunus.backbone.probe import Probe, SizeError, probe_network, unread_note
from prunus.backbone.standardized import bake_standardized
from prunus.backbone.tensor_names import without_prefixes
from prunus.backbone.timm_networks import (
    accepts,
    build_timm,
    check_timm_name,
    fetch_timm_weights,
    fit_timm,
    refused_size,
    timm_head,
    timm_names,
    timm_preprocess,
)
from prunus.backbone.weights import fill, fingerprint, read_weights
from prunus.backbone.wrn import wrn14_2, wrn28_4
from prunus.bundle.file import read_bundle
from prunus.config import BackboneChoice
from prunus.editing.kept_channels import kept_channels
from prunus.editing.original import check_original, common_preprocess, original_choice
from prunus.errors import BackboneError, UnknownNameError
from prunus.images import Preprocess
from prunus.samples import bundled
from prunus.torch_graph.file_network import FileNetwork


@dataclass(frozen=True)
class ZooEntry:
    """A bundled network: how to build it, its weights file, and what it was trained on."""

    build: Callable[[], nn.Module]
    file: str
    size: int
    top1: float
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    trained_on: str


SAFETENSORS = ".safetensors"
_TINY_IMAGENET = ((0.480, 0.448, 0.398), (0.277, 0.269, 0.282), "Tiny-ImageNet-200")  # mean, std, name

ZOO: dict[str, ZooEntry] = {
    "wrn28_4": ZooEntry(wrn28_4, "wrn28_4.tiny_imagenet_64.safetensors", 64, 0.6341, *_TINY_IMAGENET),
    "wrn14_2": ZooEntry(wrn14_2, "wrn14_2.tiny_imagenet_32.safetensors", 32, 0.4844, *_TINY_IMAGENET),
}


IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and std of most pretrained networks


@dataclass(frozen=True)
class Backbone:
    """A pretrained network without its head, its preprocessing, and the shapes of one forward pass.

    Args:
        notes: what a user should know about its weights or images.
        has_file: whether a file outside of the run holds its weights; if not, the run must keep them.
        kept: of a model file, convolution -> (outputs, inputs): the kernels that it holds; they are never changed.
    """

    name: str
    network: nn.Module
    preprocess: Preprocess
    probe: Probe
    notes: tuple[str, ...] = ()
    has_file: bool = True
    kept: Mapping[str, Tensor] | None = None


def load_backbone(choice: BackboneChoice, stored: Path | None = None) -> Backbone:
    """Build a network with pretrained weights, the weights of a file, or random ones; or open a model file as one.

    Args:
        stored: the file in which a run has kept the weights, which then counts instead of the choice.
    """
    if choice.is_model_file:
        return _open_model_file(choice)
    own = find_own(choice.name)
    if own is None:
        _check_known(choice.name)
    notes: list[str] = []
    file = stored or _file(choice, own)
    tensors = read_weights(file, notes.append) if file else {}
    card = read_card(file) if file and file.suffix == SAFETENSORS else None
    if card and file:
        _check_name(card, choice.name, file)
    preprocess = _preprocess(choice, card, own, notes.append)
    with torch.random.fork_rng(devices=[]):  # random weights are the same every time
        torch.manual_seed(0)
        network = build_own(own) if own else _build(choice.name, preprocess.size)
    if file:
        if card or stored:
            network = bake_standardized(network)  # it was trained or kept with plain convolutions
        if _is_of_timm(choice.name, own):
            tensors = fit_timm(network, without_prefixes(tensors, network.state_dict()))
        fill(network, tensors, choice.name, _head(choice.name, own), file)
    network = bake_standardized(network)
    probe = _probe(choice.name, network, preprocess.size, own)
    if own:
        check_pass(own.name, network, preprocess.size)
    hold_linears(network, but=probe.positions)
    sizes = (lambda size: accepts(choice.name, size)) if _is_of_timm(choice.name, own) else None
    notes += filter(None, (held_note(network), unread_note(network, probe, preprocess.size, sizes)))
    has_file = stored is None and (own is None or file is not None)
    return Backbone(choice.name, network, preprocess, probe, tuple(notes), has_file)


def _probe(name: str, network: nn.Module, size: int, own: OwnBackbone | None) -> Probe:
    try:
        return probe_network(network, size)
    except SizeError as error:
        if _is_of_timm(name, own):
            raise refused_size(name, size, error.reason) from None
        raise


def _open_model_file(choice: BackboneChoice) -> Backbone:
    """Open a model file as the backbone of a domain that is to be added to it."""
    bundle = read_bundle(Path(choice.name))
    others = None
    if choice.original:
        original = original_choice(bundle, choice.original)
        dense = load_backbone(original).network
        check_original(bundle, original, fingerprint(dense))
        state = dense.state_dict()
        others = {
            layer: _kernels(state[f"{layer}.weight"])[outputs][:, inputs]
            for layer, (outputs, inputs) in kept_channels(bundle.manifest).items()
        }
    network = FileNetwork(bundle, others)
    preprocess = common_preprocess(bundle)
    kept = {name: torch.from_numpy(union_OI) for name, union_OI in network.unions().items()}
    return Backbone(choice.name, network, preprocess, probe_network(network, preprocess.size), kept=kept)


def _kernels(weight: Tensor) -> Tensor:
    """Return the weights of a layer as kernels, those of a linear layer as 1x1 ones."""
    return weight if weight.ndim == 4 else weight[..., None, None]


def _is_of_timm(name: str, own: OwnBackbone | None) -> bool:
    return own is None and name.startswith(TIMM_PREFIX)


def _build(name: str, size: int) -> nn.Module:
    return ZOO[name].build() if name in ZOO else build_timm(name, size)


def _check_known(name: str) -> None:
    """Refuse a network that is neither bundled nor one of timm's."""
    if name in ZOO:
        return
    if name.startswith(TIMM_PREFIX):
        check_timm_name(name)
        return
    known = [*ZOO, *own_names(), f"{TIMM_PREFIX}<any timm network>", *timm_names(name)]
    raise UnknownNameError("backbone", name, known)


def _head(name: str, own: OwnBackbone | None) -> frozenset[str]:
    """Return the names of the tensors of a network's classifier, as far as they are known."""
    return timm_head(name) if _is_of_timm(name, own) else frozenset()


def _check_name(card: BackboneCard, name: str, file: Path) -> None:
    if card.name != name:
        raise BackboneError(
            f"{file} holds the weights of {card.name}, but the recipe's backbone is {name}; "
            f'set backbone.name = "{card.name}", or choose another file'
        )


def _file(choice: BackboneChoice, own: OwnBackbone | None) -> Path | None:
    """Return the file of the weights; None if they are random, or those of a user's network as it is built."""
    if choice.weights == "random":
        return None
    if choice.weights != "pretrained":
        return Path(choice.weights)
    if own:
        return own.weights
    return bundled("backbones") / ZOO[choice.name].file if choice.name in ZOO else fetch_timm_weights(choice.name)


def _preprocess(choice: BackboneChoice, card: BackboneCard | None, own: OwnBackbone | None, note: Note) -> Preprocess:
    """Return a network's preprocessing: that of the recipe, of its weights file if it has a card, or of the table."""
    trained, mean, std = _trained_with(choice.name, card, own)
    mean, std = choice.mean or mean, choice.std or std
    size = choice.size or trained
    if size is None:
        raise BackboneError(f"the input size of backbone {choice.name!r} is unknown; set backbone.size, in pixels")
    if mean is None or std is None:
        note(
            f"images for backbone {choice.name!r} are normalized as for ImageNet; "
            "if its weights were trained otherwise, set backbone.mean and backbone.std"
        )
    if choice.resize and choice.resize < size:
        raise BackboneError(
            f"backbone.resize must be at least the input size of {choice.name}, {size}; got {choice.resize}"
        )
    resize = card.preprocess.resize if card and size == trained else max(size, round(size * 9 / 8))
    return Preprocess(size=size, resize=choice.resize or resize, mean=mean or IMAGENET[0], std=std or IMAGENET[1])


def _trained_with(
    name: str, card: BackboneCard | None, own: OwnBackbone | None
) -> tuple[int | None, Colour | None, Colour | None]:
    """Return the input size, mean and standard deviation that a network was trained with, as far as known."""
    if card:
        return card.preprocess.size, card.preprocess.mean, card.preprocess.std
    if own:
        return own.size, own.mean, own.std
    entry = ZOO.get(name)
    return (entry.size, entry.mean, entry.std) if entry else timm_preprocess(name)
