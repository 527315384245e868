"""Where the cache keeps the classifiers on frozen features, which all runs on the same images share."""

import hashlib
import json
from pathlib import Path

import torch

from prunus.backbone.own.registry import find_own
from prunus.checkpoints.checkpoint import Identity
from prunus.learning.frozen_features import SETTINGS
from prunus.version import __version__


def known_classifiers(folder: Path, identity: Identity, device: torch.device) -> dict[str, Path]:
    """Return where the classifier of every domain is kept; the file's name is a hash of all that decides its content.

    There are no such files for users' networks: they may compute something else tomorrow with the same weights.
    """
    if find_own(identity.recipe.backbone.name):
        return {}
    settings = [*SETTINGS, __version__, torch.__version__, device.type]
    network = [identity.recipe.backbone.model_dump(mode="json"), identity.backbone]
    keys = {
        name: json.dumps([*settings, *network, images, identity.preprocess[name].model_dump(mode="json")])
        for name, images in identity.domains.items()
    }
    return {name: folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.linear" for name, key in keys.items()}
