"""Which operations of an 8-bit model file compute with integers, and what that loses."""

from collections import Counter
from collections.abc import Sequence

from prunus.amounts import plural
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.record import read_record
from prunus.bundle.eight_bits.splitting import possible_integers
from prunus.graph.operations import Conv
from prunus.measure.eight_bits.held_out import HeldOut, accuracy_in_words, are_kept, doubts, what_breaks
from prunus.measure.result import Result

MOST_NAMES = 12  # of layers in one sentence
CALIBRATION = 64  # images of each domain that choose the codings, if there are as many and memory has room
KINDS = {"conv": "convolutions", "layer_norm": "layer norms", "attention": "attention"}  # that always use floats
OTHERS = "others"


def _listed(names: Sequence[str], others: int = 0) -> str:
    """List layers, and count those that are too many and operations that have no name."""
    more = [f"{plural(left, 'more layer')}" for left in [len(names) - MOST_NAMES] if left > 0]
    rest = [plural(others, "other operation" if names else "operation")] if others else []
    return ", ".join([*names[:MOST_NAMES], *more, *rest])


class EightBits(Result):
    """The integers of an 8-bit model file.

    Args:
        operations: of the graph.
        integers: of these, those that compute with 8-bit integers.
        kept_float: layers that could, but returned to floats so that less accuracy is lost.
        kept_others: how many other operations did.
        always_float: how many operations cannot compute with integers, by kind.
        wide: layers whose weights are stored as float16; they compute with floats.
        calibration: images of each domain that chose the codings; None if the file does not record it.
        held_out: the accuracy before and after, by domain, as measured when the file was written.
        unmeasured: domains that had no held-out images.
        within: whether no more accuracy is lost than allowed; None if nothing was measured, or not all that is needed.
    """

    added = ("within",)

    operations: int
    integers: int
    kept_float: tuple[str, ...]
    kept_others: int
    always_float: dict[str, int]
    wide: tuple[str, ...]
    calibration: int | None
    held_out: dict[str, HeldOut]
    unmeasured: tuple[str, ...]
    within: bool | None = None

    def in_words(self) -> list[str]:
        """Say what was decided, and what it loses."""
        lines = [f"8 bits: {self.integers} of {plural(self.operations, 'operation')} compute with integers"]
        if fixed := sum(self.always_float.values()):
            kinds = ", ".join(f"{kind} {count}" for kind, count in self.always_float.items())
            lines[0] += f"; {fixed} always {'uses' if fixed == 1 else 'use'} floats ({kinds})"
        returned = [layer for layer in self.kept_float if layer not in set(self.wide)]
        if not self.integers:
            lines.append("without integers the file is small, but not faster than a file of floats")
        elif returned or self.kept_others:
            near_chance = self.held_out and all(row.is_near_chance for row in self.held_out.values())
            why = "" if near_chance else ", to lose less accuracy"
            lines.append(f"returned to floats{why}: {_listed(returned, self.kept_others)}")
        if self.wide:
            lines.append(f"weights kept as float16, and computed in floats: {_listed(self.wide)}")
        lines += accuracy_in_words(self.held_out)
        if self.unmeasured:
            lines.append(f"not measured, because no images were held out: {', '.join(self.unmeasured)}")
        return lines

    def notes(self) -> list[str]:
        """Say what makes the measured accuracies less certain, and whether too much is lost."""
        found = doubts(self.held_out)
        if self.calibration is not None and self.calibration < CALIBRATION:
            images = plural(self.calibration, "image")
            found.insert(0, f"at most {images} of each domain chose the codings, where {CALIBRATION} are usual")
        return [*found, *([what_breaks(self.held_out)] if self.within is False else [])]


def eight_bits_of(bundle: Bundle) -> EightBits | None:
    """Describe the integers of a bundle; None if it is not of 8 bits."""
    if bundle.dtype != "int8":
        return None
    manifest = bundle.manifest
    integers = set(manifest.integers)
    record = read_record(manifest.provenance)
    held_out = {
        name: HeldOut(**row._asdict(), chance=1 / len(manifest.domains[name].classes))
        for name, row in (record.accuracy.items() if record else ())
        if name in manifest.domains
    }
    possible = set(possible_integers(bundle))
    kept = [manifest.graph[number] for number in sorted(possible - integers)]
    fixed = Counter(KINDS.get(o.op, OTHERS) for number, o in enumerate(manifest.graph) if number not in possible)
    layers = tuple(dict.fromkeys(operation.layer for operation in kept if isinstance(operation, Conv)))
    return EightBits(
        operations=len(manifest.graph),
        integers=len(integers),
        kept_float=layers,
        kept_others=sum(not isinstance(operation, Conv) for operation in kept),
        always_float={kind: fixed[kind] for kind in sorted(fixed, key=lambda kind: (kind == OTHERS, -fixed[kind]))},
        wide=manifest.wide,
        calibration=record.calibration if record else None,
        held_out=held_out,
        unmeasured=tuple(name for name in manifest.domains if record and name not in held_out),
        within=are_kept(held_out),
    )
