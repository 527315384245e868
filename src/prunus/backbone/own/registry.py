"""The table of users' networks: registered by name, found in installed packages, or passed to one call.

It needs no torch, so that networks can be listed without it.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from prunus.config import MODEL_SUFFIX
from prunus.errors import BackboneError
from prunus.names import name_problem

if TYPE_CHECKING:
    from torch import nn

GROUP = "prunus.backbones"  # of entry points
TIMM_PREFIX = "timm/"
BUNDLED = ("wrn28_4", "wrn14_2")
EXAMPLE = "prunus.register_backbone('leaf_net', LeafNet, size=32, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))"

Colour = tuple[float, float, float]


@dataclass(frozen=True)
class OwnBackbone:
    """A user's network.

    Args:
        build: returns the network, without its classifier.
        size: input pixels; None if only the recipe says it, as mean and std.
        weights: a weights file; None if `build` returns the network with its weights.
        is_passed: whether it holds for one call only.
    """

    name: str
    build: Callable[[], nn.Module]
    size: int | None = None
    mean: Colour | None = None
    std: Colour | None = None
    weights: Path | None = None
    is_passed: bool = False


_REGISTERED: dict[str, OwnBackbone] = {}
_PASSED: ContextVar[tuple[str | None, nn.Module] | None] = ContextVar("passed_backbone", default=None)


def register_backbone(  # what timm's configuration of a network holds
    name: str,
    build: Callable[[], nn.Module],
    *,
    size: int,
    mean: Sequence[float],
    std: Sequence[float],
    weights: str | os.PathLike[str] | None = None,
) -> None:
    """Make a user's network known by a name, which recipes and commands then accept as `backbone`.

    A package that registers networks in a module lists the module as an entry point of the group `prunus.backbones`,
    under the name of each network. After its installation every command finds them. A name that is registered
    again is replaced.

    Args:
        name: used in recipes; names of bundled networks and the prefix `timm/` are taken.
        build: called without arguments, returns the network: images in, one feature vector per image out.
        size: input pixels, unless a recipe sets `backbone.size`.
        mean: of each colour, in the range from 0 to 1.
        std: standard deviation of each colour, likewise.
        weights: a weights file (.safetensors, .pth, .pt, .bin); without one, `build` returns the network with its
            weights.
    """
    _check_name(name)
    if not callable(build):
        raise BackboneError(
            f"build must be a function that returns the network, got {reprlib.repr(build)}; for example: {EXAMPLE}"
        )
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise BackboneError(f"size must be the input pixels of {name!r}, such as 224; got {size!r}")
    file = None if weights is None else Path(os.fspath(weights)).absolute()
    _REGISTERED[name] = OwnBackbone(name, build, size, _colour(mean, "mean"), _colour(std, "std"), file)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name or name_problem(name):
        raise BackboneError(f"the name of a backbone must be a short text, got {reprlib.repr(name)}; {EXAMPLE}")
    if name in BUNDLED or name.startswith(TIMM_PREFIX) or name.endswith(MODEL_SUFFIX):
        raise BackboneError(f"the name {name!r} is taken by Prunus itself; choose another name for your backbone")


def _colour(values: Sequence[float], what: str) -> Colour:
    numbers = tuple(float(value) for value in values) if not isinstance(values, (int, float)) else ()
    if len(numbers) != 3 or (what == "std" and min(numbers) <= 0):
        raise BackboneError(f"{what} must be three {'positive ' * (what == 'std')}numbers, got {values!r}")
    return numbers[0], numbers[1], numbers[2]


@contextmanager
def passing(name: str | None, module: nn.Module | None) -> Iterator[None]:
    """Let a module stand for the network of a name, or for any, until the end of a call."""
    token = _PASSED.set(None if module is None else (name, module))
    try:
        yield
    finally:
        _PASSED.reset(token)


def _as_passed(name: str, module: nn.Module) -> OwnBackbone:
    known = _REGISTERED.get(name)
    size, mean, std = (known.size, known.mean, known.std) if known else _timm_settings(module)
    return OwnBackbone(name, lambda: module, size, mean, std, is_passed=True)


def _timm_settings(module: object) -> tuple[int | None, Colour | None, Colour | None]:
    """Return the input of a network that timm has made."""
    settings = getattr(module, "pretrained_cfg", None)
    if not isinstance(settings, Mapping) or not {"input_size", "mean", "std"} <= settings.keys():
        return None, None, None
    return max(settings["input_size"][1:]), _colour(settings["mean"], "mean"), _colour(settings["std"], "std")


def find_own(name: str) -> OwnBackbone | None:
    """Return the network that was passed or registered under a name; None if there is none."""
    passed = _PASSED.get()
    if passed and passed[0] in (None, name):
        return _as_passed(name, passed[1])
    if name not in _REGISTERED and name not in BUNDLED and not name.startswith(TIMM_PREFIX):
        _load(name)
    return _REGISTERED.get(name)


def own_names() -> list[str]:
    """List the networks that were registered, or that installed packages would register."""
    return sorted({*_REGISTERED, *(entry.name for entry in entry_points(group=GROUP))})


def not_registered(what: str, name: str, other_way: str = "") -> BackboneError:
    """Return the error about a user's network that is needed and not known.

    Args:
        what: the run or file that needs it, with a verb, as in "runs/a was trained with".
        other_way: what to do without the network, as the end of the sentence.
    """
    return BackboneError(
        f"{what} your own network {name!r}, which is not registered here; in Python pass backbone=MODULE, or install a "
        f"package that registers it (entry point {name!r} of the group {GROUP}){other_way}"
    )


def _load(name: str) -> None:
    """Import the module that registers a network, if an installed package has one."""
    entries = list(entry_points(group=GROUP, name=name))
    if len(entries) > 1:
        packages = " and ".join(sorted(map(_package, entries)))
        raise BackboneError(f"the backbone {name!r} is registered by {packages}; uninstall one of them")
    for entry in entries:
        where = f"{entry.value} of {_package(entry)}"
        try:
            entry.load()
        except Exception as error:  # the import runs the package's own code
            reason = f"{type(error).__name__}: {error}"
            raise BackboneError(
                f"the backbone {name!r} is registered by {where}, which cannot be imported ({reason}); "
                "fix that package, or install it again"
            ) from error
        if name not in _REGISTERED:
            raise BackboneError(
                f"{where} is an entry point of the group {GROUP}, but does not register {name!r}; call there: "
                f"{EXAMPLE.replace('leaf_net', name)}"
            )


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "an installed package"
