"""Save and read the whole state of a training run: safetensors and JSON, no pickle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from prunus.checkpoints.best import Best
from prunus.config import Recipe
from prunus.errors import TrainingError
from prunus.files import write_atomically
from prunus.images import Preprocess
from prunus.learning.learner import Learner
from prunus.parallel.processes import Processes
from prunus.presets import of_any_version

FORMAT_VERSION = 2


def _of_any_version(recipe: object) -> object:
    return of_any_version(recipe) if isinstance(recipe, Mapping) else recipe


class Identity(BaseModel):
    """The recipe, backbone and data of a run: with any other, it would be a different run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    recipe: Annotated[Recipe, BeforeValidator(_of_any_version)]
    backbone: str
    domains: dict[str, str]
    classes: dict[str, tuple[str, ...]]
    preprocess: dict[str, Preprocess]


class Position(BaseModel):
    """How far a run has come: steps done and in all, its best epoch, and whether it ended before the last step."""

    model_config = ConfigDict(frozen=True)

    step: int
    total_steps: int
    best: Best | None = None
    stopped_early: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to train."""
        return self.stopped_early or self.step >= self.total_steps


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run at a position."""

    position: Position
    identity: Identity
    tensors: dict[str, Tensor]


def save_checkpoint(path: Path, learner: Learner, position: Position, identity: Identity) -> None:
    """Replace the last checkpoint by a new one; of several processes the first writes it, and all must call this."""
    checkpoint = Checkpoint(position, identity, learner.tensors() | {"tally": learner.whole_tally()})
    if learner.processes.is_first:
        write_checkpoint(path, checkpoint)


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint to a file that then replaces the one of this name."""
    identity = checkpoint.identity.model_dump(mode="json")
    header = {"format_version": FORMAT_VERSION, "identity": identity, **checkpoint.position.model_dump()}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    write_atomically(path, save(tensors, {"prunus": json.dumps(header)}))


def share_checkpoint(checkpoint: Checkpoint | None, processes: Processes) -> Checkpoint | None:
    """Return the first process's checkpoint in all processes, so that only one of them needs the file."""
    if processes.world == 1:
        return checkpoint
    header = _Header.of(checkpoint).model_dump_json() if checkpoint else None
    content = processes.agree(header)
    if content is None:
        return None
    received = checkpoint or _Header.model_validate_json(content).to_checkpoint()
    processes.broadcast_(list(received.tensors.values()))
    return received


class _Header(BaseModel):
    """A checkpoint without the content of its tensors."""

    position: Position
    identity: Identity
    tensors: dict[str, tuple[str, tuple[int, ...]]]  # type and shape

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "_Header":
        tensors = {
            name: (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
            for name, tensor in checkpoint.tensors.items()
        }
        return cls(position=checkpoint.position, identity=checkpoint.identity, tensors=tensors)

    def to_checkpoint(self) -> Checkpoint:
        tensors = {
            name: torch.empty(shape, dtype=getattr(torch, dtype)) for name, (dtype, shape) in self.tensors.items()
        }
        return Checkpoint(self.position, self.identity, tensors)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and refuse files that are damaged, foreign or of another format."""
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads(file.metadata()["prunus"])
            version = header.get("format_version")
            if version != FORMAT_VERSION:
                raise TrainingError(
                    f"{path} has checkpoint format {version}, but this version of prunus reads format "
                    f"{FORMAT_VERSION}; open it with the version that wrote it"
                )
            identity = Identity.model_validate_json(json.dumps(header["identity"]))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
            return Checkpoint(Position.model_validate(header), identity, tensors)
    except FileNotFoundError:
        raise TrainingError(f"no checkpoint at {path}; train first: prunus train recipe.toml --out DIR") from None
    except (SafetensorError, OSError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise TrainingError(f"{path} is not a readable checkpoint: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise TrainingError(f"{path} is not a readable checkpoint: {key}: {first['msg']}") from None
