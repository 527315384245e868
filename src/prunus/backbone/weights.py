"""Fill a network with the tensors of a safetensors file."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from prunus.amounts import plural
from prunus.errors import BackboneError


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file."""
    try:
        return load(path.read_bytes())
    except OSError as error:
        raise BackboneError(f"cannot read the weights {path}: {error.strerror}") from None
    except SafetensorError:  # its text is about bytes of the header
        raise BackboneError(
            f"{path} is not a safetensors file, or it is damaged; pickled weights (.pth, .bin) are never loaded"
        ) from None


def fill(network: nn.Module, tensors: Mapping[str, Tensor], name: str) -> None:
    """Copy weights into a network without a head; tensors of the file's head are ignored."""
    targets = network.state_dict()
    missing = [key for key in targets if key not in tensors and not key.endswith("num_batches_tracked")]
    if missing:
        raise BackboneError(
            f"the weights lack {plural(len(missing), 'tensor')} that {name} needs, such as {missing[0]!r}; "
            "is this its file?"
        )
    for key, target in targets.items():
        if key in tensors:
            if tensors[key].shape != target.shape:
                shapes = f"{tuple(target.shape)}, the weights file has {tuple(tensors[key].shape)}"
                raise BackboneError(f"{key!r} of {name} has the shape {shapes}")
            target.copy_(tensors[key])


def fingerprint(network: nn.Module) -> str:
    """Hash all weights: a run can only be opened with the network it was trained on."""
    digest = hashlib.sha256()
    for key, tensor in sorted(network.state_dict().items()):
        digest.update(key.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
