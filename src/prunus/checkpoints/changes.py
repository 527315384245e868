"""Say what has changed since a run began: continued with anything else, it would be a different run."""

from collections.abc import Sequence

from prunus.checkpoints.checkpoint import Identity
from prunus.errors import TrainingError
from prunus.images import Preprocess

MOST_NAMES = 3
REMEDY = "restore it, or start a new run"


def check_identity(before: Identity, now: Identity) -> None:
    """Refuse to continue a run with other classes, images, splits, preprocessing or another backbone."""
    for name, classes in now.classes.items():
        if before.classes[name] != classes:
            changes = _class_changes(before.classes[name], classes)
            raise TrainingError(
                f"the classes of domain {name!r} have changed since this run began ({changes}); "
                "rename them back, or start a new run"
            )
    check_same("backbone", before.backbone, now.backbone)
    for name, checksum in now.domains.items():
        check_same(f"data of domain {name!r}", before.domains[name], checksum)
    if before.validation is not None:
        held_out = now.validation or {}
        for name in [*now.domains]:
            check_same(f"validation data of domain {name!r}", before.validation.get(name), held_out.get(name))
    for name, preprocess in now.preprocess.items():
        if changes := _preprocess_changes(before.preprocess[name], preprocess):
            raise TrainingError(
                f"the preprocessing of domain {name!r} has changed since this run began ({changes}); {REMEDY}"
            )


def check_same(what: str, before: str | None, now: str | None) -> None:
    """Refuse to continue a run with another backbone or other data."""
    if before != now:
        raise TrainingError(f"the {what} has changed since this run began; {REMEDY}")


def _class_changes(before: Sequence[str], now: Sequence[str]) -> str:
    gone = [name for name in before if name not in now]
    new = [name for name in now if name not in before]
    if not gone and not new:
        return "they have another order"
    if len(gone) == len(new):
        return _few([f"{old!r} is now {name!r}" for old, name in zip(gone, new, strict=True)])
    parts = [("gone", gone), ("new", new)]
    return "; ".join(f"{what}: {_few([repr(name) for name in names])}" for what, names in parts if names)


def _preprocess_changes(before: Preprocess, now: Preprocess) -> str:
    ours, theirs = before.model_dump(), now.model_dump()
    return _few([f"{key}: {ours[key]} -> {theirs[key]}" for key in ours if ours[key] != theirs[key]])


def _few(changes: Sequence[str]) -> str:
    more = f" and {len(changes) - MOST_NAMES} more" if len(changes) > MOST_NAMES else ""
    return ", ".join(changes[:MOST_NAMES]) + more
