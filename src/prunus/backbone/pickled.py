"""Read the tensors of a file that torch.save wrote, without running anything that it holds."""

import io
import pickle
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from prunus.errors import BackboneError
from prunus.reading import OPENING

ZIP_START = b"PK\x03\x04"
PICKLE_STARTS = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
HEADER_START = slice(8, 9)  # of safetensors, whose length may look like the start of a pickle
EMA = ("state_dict_ema", "model_ema", "ema_state_dict", "ema")  # averages of the weights, which are evaluated
# where training scripts keep the weights beside an optimizer and counters; averages come first
WRAPPERS = (*EMA, "state_dict", "model_state_dict", "model", "module", "network", "net", "weights", "params")
MOST_WRAPPERS = 4  # around one another; a damaged file may even hold itself
SAVE = "save the weights with: torch.save(model.state_dict(), 'weights.pth')"
FORBIDDEN = re.compile(r"(?:GLOBAL|global|class) `?([\w.]+)`?")
SHOWN_KEYS = 6
Note = Callable[[str], None]


def is_pickled(content: bytes) -> bool:
    """Return whether a file begins like one of torch.save, of any version."""
    return content.startswith((ZIP_START, *PICKLE_STARTS)) and content[HEADER_START] != b"{"


def read_pickled(content: bytes, path: Path, note: Note) -> dict[str, Tensor]:
    """Return the weights in a file of torch.save; objects and code in it are refused and never run.

    Args:
        note: told which of several sets of weights was chosen.
    """
    if content.startswith(ZIP_START):
        _check_archive(content, path)
    try:
        loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise _refusal(path, str(error)) from None
    except Exception as error:  # damaged files make the reader fail in any way
        raise _damaged(path) from error
    return _weights(loaded, path, note)


def _check_archive(content: bytes, path: Path) -> None:
    """Refuse archives with code, and those that would be larger in memory than on disk."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            members = file.infolist()
    except OPENING:
        raise _damaged(path) from None
    if any("/code/" in member.filename or member.filename.endswith("constants.pkl") for member in members):
        raise BackboneError(f"{path} is a TorchScript archive, which holds code; {SAVE}")
    is_compressed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
    if is_compressed or sum(member.file_size for member in members) > len(content):
        raise BackboneError(f"{path} is a compressed zip file, which torch.save does not write; {SAVE}")


def _damaged(path: Path) -> BackboneError:
    return BackboneError(f"{path} is damaged or cut short, so torch cannot read it; copy or download it again")


def _refusal(path: Path, reason: str) -> BackboneError:
    found = FORBIDDEN.search(reason)
    if found is None:
        return _damaged(path)
    return BackboneError(
        f"{path} holds {found[1]}, an object of Python that could run code, and only tensors are read; {SAVE}"
    )


def _weights(loaded: object, path: Path, note: Note) -> dict[str, Tensor]:
    """Take off what training scripts put around the weights."""
    for _ in range(MOST_WRAPPERS):
        wrappers = [key for key in WRAPPERS if isinstance(loaded, Mapping) and isinstance(loaded.get(key), Mapping)]
        if not isinstance(loaded, Mapping) or not wrappers:
            break
        if wrappers[0] in EMA and len(wrappers) > 1:
            note(f"{path} holds several sets of weights; {wrappers[0]!r}, their running average, is used")
        loaded = loaded[wrappers[0]]
    content = loaded if isinstance(loaded, Mapping) else {}
    tensors = {str(key): value.detach() for key, value in content.items() if isinstance(value, Tensor)}
    if tensors:
        return tensors
    raise BackboneError(f"{path} holds no weights of a network: {_describe(loaded)}; {SAVE}")


def _describe(loaded: object) -> str:
    if not isinstance(loaded, Mapping):
        return f"it holds a {type(loaded).__name__}, not a dictionary of tensors"
    if {"state", "param_groups"} <= loaded.keys():
        return "it holds the state of an optimizer"
    keys = [str(key) for key in loaded]
    more = f" and {len(keys) - SHOWN_KEYS} more" if len(keys) > SHOWN_KEYS else ""
    return f"its keys are {', '.join(keys[:SHOWN_KEYS]) or 'none'}{more}, and none of them holds weights"
