"""Find the backbones, domains and recipes of the package `prunus_samples`."""

from importlib import resources
from pathlib import Path
from typing import Literal

from prunus.errors import MissingExtraError

PURPOSES = {
    "backbones": "a bundled backbone (wrn14_2, wrn28_4)",
    "domains": "a bundled domain (demo:NAME)",
    "recipes": "the demo",
    "results": "the demo",
}


def bundled(kind: Literal["backbones", "domains", "recipes", "results"]) -> Path:
    """Return the folder of one kind of samples."""
    try:
        return Path(str(resources.files("prunus_samples") / kind))
    except ModuleNotFoundError:
        raise MissingExtraError("prunus-samples", "demo", PURPOSES[kind]) from None


def demo_names() -> list[str]:
    """List the bundled demo domains."""
    return sorted(path.stem for path in bundled("domains").glob("*.zip"))
