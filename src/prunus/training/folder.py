"""Where a run keeps its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps its files."""

    path: Path

    @property
    def recipe(self) -> Path:
        """The recipe as it was run, defaults filled in."""
        return self.path / "recipe.json"

    @property
    def checkpoint(self) -> Path:
        """The last saved state."""
        return self.path / "checkpoint.safetensors"

    @property
    def log(self) -> Path:
        """One JSON line per epoch."""
        return self.path / "log.jsonl"
