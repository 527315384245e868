"""Fill a network with the tensors of a weights file: all of them, and no others."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from prunus.amounts import plural
from prunus.backbone.pickled import Note, is_pickled, read_pickled
from prunus.backbone.tensor_names import is_counter, left_over, without_prefixes
from prunus.errors import BackboneError
from prunus.files import write_atomically
from prunus.reading import read_file

MAX_WEIGHTS_BYTES = 2**35  # far above any convolutional network
SHOWN = 3  # names in an error
START = 24  # bytes of a foreign file that an error shows


def _ignore(note: str) -> None:
    pass


def read_weights(path: Path, note: Note = _ignore) -> dict[str, Tensor]:
    """Read a safetensors file, or the weights in a file of torch.save (.pth, .pt, .bin); code in it is never run."""
    try:
        content = read_file(path, MAX_WEIGHTS_BYTES)
    except OSError as error:
        raise BackboneError(f"cannot read the weights {path}: {error.strerror or error}") from None
    if is_pickled(content):
        return read_pickled(content, path, note)
    try:
        return load(content)
    except SafetensorError:  # its text is about bytes of the header
        pass
    if path.suffix == ".safetensors":
        raise BackboneError(f"{path} is not a safetensors file, or it is damaged; copy or download it again")
    raise BackboneError(
        f"{path} is neither a file of torch.save nor a safetensors file; it begins with {content[:START]!r}; "
        "download or save it again"
    )


@torch.no_grad()
def fill(
    network: nn.Module, tensors: Mapping[str, Tensor], name: str, head: Collection[str] = (), file: Path | None = None
) -> None:
    """Copy weights into a network without a classifier; every tensor of the file must fit.

    Usual prefixes are taken off the names, and a classifier in the file is left out.

    Args:
        head: names of the tensors of the network's own classifier.
        file: where the tensors are from, for errors.
    """
    targets = network.state_dict()
    named = without_prefixes(tensors, targets)
    problems = list(filter(None, (check(named, targets, name, head) for check in CHECKS)))
    if problems:
        source = file or "this"
        raise BackboneError(f"{'; '.join(problems)}; is {source} the file of {name}?")
    _check_finite({key: named[key] for key in targets if key in named}, file)
    for key, target in targets.items():
        if key in named:
            target.copy_(named[key])


Named = Mapping[str, Tensor]


def _missing(named: Named, targets: Named, name: str, head: Collection[str]) -> str | None:
    missing = [key for key in targets if key not in named and not is_counter(key)]
    return (
        f"the weights lack {plural(len(missing), 'tensor')} that {name} needs, {_such_as(missing)}" if missing else None
    )


def _surplus(named: Named, targets: Named, name: str, head: Collection[str]) -> str | None:
    surplus = left_over(named, targets, head)
    return (
        f"the weights have {plural(len(surplus), 'tensor')} that {name} does not have, {_such_as(surplus)}"
        if surplus
        else None
    )


def _other_shapes(named: Named, targets: Named, name: str, head: Collection[str]) -> str | None:
    other = [key for key, target in targets.items() if key in named and named[key].shape != target.shape]
    if not other:
        return None
    shapes = f"{tuple(targets[other[0]].shape)}, the weights file has {tuple(named[other[0]].shape)}"
    more = f" (and {plural(len(other) - 1, 'other tensor')} of another shape)" if len(other) > 1 else ""
    return f"{other[0]!r} of {name} has the shape {shapes}{more}"


def _other_types(named: Named, targets: Named, name: str, head: Collection[str]) -> str | None:
    other = [
        key
        for key, target in targets.items()
        if key in named and target.is_floating_point() and not _is_plain(named[key])
    ]
    if not other:
        return None
    first = named[other[0]]
    kind = f"{first.dtype}, {first.layout}, on {first.device}".replace("torch.", "")
    return f"{plural(len(other), 'tensor')} of the weights without plain numbers, {_such_as(other)} ({kind})"


def _is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor holds floating-point numbers, neither quantized nor sparse nor left out."""
    return tensor.is_floating_point() and tensor.layout == torch.strided and not tensor.is_meta


CHECKS = (_missing, _surplus, _other_shapes, _other_types)


def _check_finite(tensors: Named, file: Path | None) -> None:
    broken = [key for key, tensor in tensors.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    if broken:
        raise BackboneError(
            f"{file or 'the weights'}: NaN or infinite values in {plural(len(broken), 'tensor')}, {_such_as(broken)}; "
            "use a checkpoint from before its training diverged"
        )


def _such_as(names: Sequence[str]) -> str:
    return f"such as {', '.join(map(repr, names[:SHOWN]))}"


def write_weights(path: Path, network: nn.Module) -> None:
    """Keep the weights of a network in a file that `read_weights` reads."""
    tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in network.state_dict().items()}
    write_atomically(path, save(tensors, {"format": "pt"}))


def fingerprint(network: nn.Module) -> str:
    """Hash all weights: a run can only be opened with the network it was trained on."""
    digest = hashlib.sha256()
    for key, tensor in sorted(network.state_dict().items()):
        digest.update(key.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
