"""Save and take back the whole state of a training: safetensors and JSON, no pickle."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from prunus.errors import TrainingError
from prunus.files import write_atomically
from prunus.training.learner import Learner

FORMAT_VERSION = 2


@dataclass(frozen=True)
class Identity:
    """What a checkpoint belongs to: resuming with another recipe, backbone or data would not be the same run."""

    recipe: dict[str, Any]
    backbone: str
    domains: dict[str, str]
    classes: dict[str, tuple[str, ...]]
    preprocess: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Checkpoint:
    """State after `step` of `total_steps` optimizer steps."""

    step: int
    total_steps: int
    identity: Identity
    tensors: dict[str, Tensor]


def save_checkpoint(path: Path, learner: Learner, step: int, total_steps: int, identity: Identity) -> None:
    """Write a checkpoint in the place of the last one."""
    header = {"format_version": FORMAT_VERSION, "step": step, "total_steps": total_steps, "identity": asdict(identity)}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in learner.tensors().items()}
    write_atomically(path, save(tensors, {"prunus": json.dumps(header)}))


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, checking that it is one of ours."""
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads(file.metadata()["prunus"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
    except FileNotFoundError:
        raise TrainingError(
            f"there is no checkpoint {path}; train first with: prunus train recipe.toml --out DIR"
        ) from None
    except (SafetensorError, OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise TrainingError(f"{path} is not a readable checkpoint: {error}") from None
    if header.get("format_version") != FORMAT_VERSION:
        found = header.get("format_version")
        raise TrainingError(f"{path} has the checkpoint format {found}, this version reads {FORMAT_VERSION}")
    return Checkpoint(header["step"], header["total_steps"], Identity(**header["identity"]), tensors)
