"""Find the state in which a run was saved last; only training continues from the one before it."""

from dataclasses import replace
from pathlib import Path

from prunus.checkpoints.checkpoint import Checkpoint, read_checkpoint
from prunus.errors import DamagedFileError, TrainingError
from prunus.run_folder import RunFolder


def read_last(folder: RunFolder) -> Checkpoint | None:
    """Read the newest checkpoint of a run, or the one before if the newest is damaged; None if nothing was saved."""
    if not folder.checkpoint.exists():
        return _read_previous(folder, f"{folder.checkpoint} is missing") if folder.previous.exists() else None
    try:
        return read_checkpoint(folder.checkpoint)
    except DamagedFileError as damage:
        return _read_previous(folder, str(damage))


def _read_previous(folder: RunFolder, reason: str) -> Checkpoint:
    advice = f"restore one of the two, or remove both to train from the beginning: prunus.resume({str(folder.path)!r})"
    if not folder.previous.exists():
        raise DamagedFileError(f"{reason}; there is no {folder.previous.name} beside it to continue from; {advice}")
    try:
        before = read_checkpoint(folder.previous)
    except DamagedFileError as damage:
        raise DamagedFileError(f"{reason}; {damage}; {advice}") from None
    return replace(before, instead_of=reason)


def note_about(checkpoint: Checkpoint | None) -> str | None:
    """Return what to tell a user about a checkpoint that stands in for a damaged one."""
    if checkpoint is None or checkpoint.instead_of is None:
        return None
    position = checkpoint.position
    return (
        f"{checkpoint.instead_of}; training continues from the checkpoint before it, "
        f"at step {position.step} of {position.total_steps}"
    )


def read_kept(folder: RunFolder, keeps_best: bool) -> Checkpoint:
    """Read the state that a run stands for, its best epoch's or its last; damage is refused with the remedy."""
    file = folder.best if keeps_best and folder.best.exists() else folder.checkpoint
    try:
        return read_checkpoint(file)
    except DamagedFileError as damage:
        raise DamagedFileError(f"{damage}; {_remedy(folder, file)}") from None
    except TrainingError:
        if file.exists() or not folder.previous.exists():
            raise
        raise TrainingError(f"{file} is missing; {_remedy(folder, file)}") from None


def _remedy(folder: RunFolder, file: Path) -> str:
    if file == folder.best:
        return f"restore it, or remove it to use the last state of the run instead of the best one: {file}"
    if folder.previous.exists():
        return f"continue from the checkpoint before it with: prunus.resume({str(folder.path)!r})"
    return "restore it from a backup, or train the run again"
