"""What a weights file of `prunus pretrain` says about its network, in the metadata of the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from prunus.errors import BackboneError
from prunus.files import write_atomically
from prunus.images import Preprocess

KEY = "prunus_backbone"  # of the metadata
FORMAT_VERSION = 1


class BackboneCard(BaseModel):
    """A pretrained network: its name, how its images are prepared, and what it was trained on.

    Args:
        trained_on: the name of the folder or zip file.
        images: training images of an epoch.
        accuracy: on images that were held out, if there were any.
        images_per_second: in training, with the validation of every epoch.
        prunus: the version that trained it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")  # later versions may say more

    format_version: int = FORMAT_VERSION
    name: str
    preprocess: Preprocess
    trained_on: str
    classes: tuple[str, ...]
    images: int
    epochs: int
    accuracy: float | None = Field(ge=0, le=1)
    images_per_second: float | None
    prunus: str


def write_backbone(path: Path, tensors: Mapping[str, Tensor], card: BackboneCard, recipe: str) -> None:
    """Write a network's tensors with its card, and with the recipe for those who want to train it again."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {"format": "pt", KEY: card.model_dump_json(), "recipe": recipe}
    write_atomically(path, save(stored, metadata))


def read_card(path: Path) -> BackboneCard | None:
    """Read the card of a weights file; files that `prunus pretrain` did not write have none."""
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(KEY)
    except OSError as error:
        raise BackboneError(f"cannot read the weights {path}: {error.strerror or error}") from None
    except SafetensorError:
        raise BackboneError(f"cannot read the weights {path}: not a safetensors file, or damaged") from None
    if text is None:
        return None
    try:
        card = BackboneCard.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise BackboneError(f"the metadata of {path} is damaged: {key}: {first['msg']}; write the file again") from None
    if card.format_version != FORMAT_VERSION:
        raise BackboneError(
            f"{path} has backbone format {card.format_version}, but this version of prunus reads format "
            f"{FORMAT_VERSION}; use the version that wrote it ({card.prunus})"
        )
    return card
