"""Save and read the whole state of a training run: safetensors and JSON, no pickle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor
from typing_extensions import Self

from prunus.checkpoints.best import Best
from prunus.config import Recipe
from prunus.errors import DamagedFileError, TrainingError
from prunus.files import write_atomically
from prunus.images import Preprocess
from prunus.learning.learner import Learner
from prunus.parallel.processes import Processes
from prunus.presets import of_any_version
from prunus.reading import read_file
from prunus.sealed import is_sealed, read_header, seal, sealable

FORMAT_VERSION = 3
MAX_CHECKPOINT_BYTES = 2**40  # there is no limit; what is not a regular file is not read
READABLE = (2, 3)  # version 2 has no checksum


def _of_any_version(recipe: object) -> object:
    return of_any_version(recipe) if isinstance(recipe, Mapping) else recipe


class Identity(BaseModel):
    """The recipe, backbone and data of a run: with any other, it would be a different run.

    Args:
        domains: a checksum of each domain's training images and labels.
        validation: the same of the images held out, of the domains that have some; None in files of format 2.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    recipe: Annotated[Recipe, BeforeValidator(_of_any_version)]
    backbone: str
    domains: dict[str, str]
    classes: dict[str, tuple[str, ...]]
    preprocess: dict[str, Preprocess]
    validation: dict[str, str] | None = None

    @model_validator(mode="after")
    def _check_domains(self) -> Self:
        names = [choice.name for choice in self.recipe.domains]
        if any(list(table) != names for table in (self.domains, self.classes, self.preprocess)):
            raise ValueError("its domains are not those of its recipe")
        return self


class Position(BaseModel):
    """How far a run has come: steps done and in all, its best epoch, and whether it ended before the last step."""

    model_config = ConfigDict(frozen=True)

    step: int = Field(ge=0)
    total_steps: int
    best: Best | None = None
    stopped_early: bool = False

    @model_validator(mode="after")
    def _check_step(self) -> Self:
        if self.step > self.total_steps:
            raise ValueError(f"step {self.step} is beyond the last one, {self.total_steps}")
        return self

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to train."""
        return self.stopped_early or self.step >= self.total_steps


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run at a position.

    Args:
        instead_of: why it was read in place of a newer one, if it was.
    """

    position: Position
    identity: Identity
    tensors: dict[str, Tensor]
    instead_of: str | None = None


def save_checkpoint(
    path: Path, learner: Learner, position: Position, identity: Identity, keep: Path | None = None
) -> None:
    """Replace the last checkpoint by a new one; of several processes the first writes it, and all must call this.

    Args:
        keep: the new name of the file that is replaced (default: it is removed).
    """
    checkpoint = Checkpoint(position, identity, learner.tensors() | {"tally": learner.whole_tally()})
    if learner.processes.is_first:
        write_checkpoint(path, checkpoint, keep)


def write_checkpoint(path: Path, checkpoint: Checkpoint, keep: Path | None = None) -> None:
    """Write a checkpoint to a file that then replaces the one of this name."""
    identity = checkpoint.identity.model_dump(mode="json")
    header = {"format_version": FORMAT_VERSION, "identity": identity, **checkpoint.position.model_dump()}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    write_atomically(path, seal(save(tensors, sealable(header))), keep)


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
        content = read_file(path, MAX_CHECKPOINT_BYTES)
    except FileNotFoundError:
        raise TrainingError(
            f"no checkpoint at {path}; train first: prunus.train('recipe.toml', {str(path.parent)!r})"
        ) from None
    except OSError as error:
        raise DamagedFileError(f"{path} is not a readable checkpoint: {error.strerror or error}") from None
    try:
        tensors = load(content)
        header = read_header(content)
    except SafetensorError:  # its text is about bytes of the header
        raise DamagedFileError(f"{path} is not a readable checkpoint: it is damaged or incomplete") from None
    except (ValueError, KeyError) as error:
        raise DamagedFileError(f"{path} is not a readable checkpoint: {error}") from None
    _check_version(path, header)
    try:
        identity = Identity.model_validate_json(json.dumps(header.get("identity")))
        return Checkpoint(Position.model_validate(header), identity, tensors)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"{part}." for part in first["loc"])[:-1] or "header"
        message = first["msg"].removeprefix("Value error, ")
        raise TrainingError(f"{path} is not a readable checkpoint: {where}: {message}") from None


def _check_version(path: Path, header: dict[str, object]) -> None:
    if not header:
        raise DamagedFileError(f"{path} is not a readable checkpoint: it has no header")
    version = header.get("format_version")
    if version not in READABLE or isinstance(version, float):
        raise TrainingError(
            f"{path} has checkpoint format {version}, but this version of prunus reads format "
            f"{' and '.join(map(str, reversed(READABLE)))}; open it with the version that wrote it"
        )
    if version == FORMAT_VERSION and not is_sealed(header):
        raise DamagedFileError(f"{path} is not a readable checkpoint: it lacks its checksum")
