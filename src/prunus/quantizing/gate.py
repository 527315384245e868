"""Keep operations in floats until 8 bits lose little enough.

First, all operations that can compute with integers do so. If that loses too much on held-out images, operations
return to floats, those first that change the logits most on their own. Their weights stay in 8 bits, so the file does
not grow. Only if all operations in floats still lose too much, layers store their weights as float16, as far as there
is room. All other operations then compute with integers again, and return to floats as before.

Biases move anew for every choice that is judged, since they make up for what this choice rounds. Operations and layers
are ranked with biases as they are.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.bounds import Losses, is_within, loses_no_more
from prunus.bundle.eight_bits.record import KEY, longest_record
from prunus.bundle.eight_bits.splitting import possible_integers
from prunus.bundle.file import bundle_size
from prunus.graph.operations import Conv
from prunus.quantizing.calibration import unwatched
from prunus.quantizing.coder import Coder
from prunus.quantizing.images import Loading, Pictures
from prunus.quantizing.judging import Judge

Thing = TypeVar("Thing", int, str)  # an operation or a layer
Choice = tuple[frozenset[int], frozenset[str]]  # operations in integers, and wide layers


@dataclass(frozen=True)
class Decision:
    """The 8-bit bundle that was chosen, and what it loses."""

    bundle: Bundle
    losses: Losses


@dataclass(frozen=True)
class Gate:
    """What decides: codes of a bundle, images to judge them by, and the bytes that a file may have.

    Args:
        watch: told how many operations or layers have been tried on their own.
        images: that move biases; none if they stay.
        correcting: told of every domain whose biases have been moved.
    """

    coder: Coder
    judge: Judge
    most_bytes: int | None = None
    watch: Loading = unwatched
    images: Mapping[str, Pictures] = field(default_factory=dict)
    correcting: Loading = unwatched
    _known: dict[Choice, tuple[Coder, Losses]] = field(default_factory=dict, init=False, repr=False)

    def decide(self) -> Decision:
        """Return the bundle with the fewest operations in floats that loses little enough, or the one nearest to it."""
        possible = possible_integers(self.coder.bundle)
        first = self._judged(possible)
        if is_within(first.losses):
            return first
        ranked = self._ranked("operations", possible, lambda number: self.coder.coded((number,)))
        found = _shortest(len(ranked), lambda count: self._judged(ranked[count:]), is_within)
        return found or self._with_integers(self._widened(), ranked)

    def _widened(self) -> Decision:
        """Return a bundle of operations in floats, in which the layers that need it most have wide weights."""
        layers = tuple(self.coder.bundle.manifest.convs)
        if not any(self._fits((layer,)) for layer in layers):
            return self._judged(())
        ranked = self._ranked("layers", layers, lambda layer: self.coder.coded((), _others(layers, layer)))
        room = max(count for count in range(len(layers) + 1) if self._fits(ranked[:count]))
        found = _shortest(room, lambda count: self._judged((), ranked[:count]), is_within)
        return found or self._judged((), ranked[:room])

    def _with_integers(self, floats: Decision, ranked: Sequence[int]) -> Decision:
        """Return a bundle of the same wide layers, with as many operations in integers as lose little enough.

        If floats lose too much themselves, integers may lose as much as they do.
        """
        wide = floats.bundle.manifest.wide
        narrow = self._narrow(ranked, wide)

        def decide(count: int) -> Decision:
            return self._judged(narrow[count:], wide) if count < len(narrow) else floats

        def is_enough(losses: Losses) -> bool:
            return is_within(losses) or loses_no_more(losses, floats.losses)

        first = decide(0)
        return first if is_enough(first.losses) else _shortest(len(narrow), decide, is_enough) or floats

    def _ranked(self, what: str, things: Collection[Thing], code: Callable[[Thing], Bundle]) -> list[Thing]:
        """Return operations or layers, those first whose 8 bits change the logits most on their own."""
        distances = {}
        for done, thing in enumerate(things, 1):
            distances[thing] = self.judge.distance(code(thing))
            self.watch(what, done, len(things))
        return sorted(things, key=distances.__getitem__, reverse=True)

    def _narrow(self, numbers: Iterable[int], wide: Collection[str]) -> list[int]:
        """Return operations without those of wide layers, which compute with floats."""
        graph = self.coder.bundle.manifest.graph
        of_wide = {n for n, operation in enumerate(graph) if isinstance(operation, Conv) and operation.layer in wide}
        return [number for number in numbers if number not in of_wide]

    def _fits(self, wide: Collection[str]) -> bool:
        """Return whether a file with these wide layers has room, whatever else is decided."""
        if not wide or self.most_bytes is None:
            return True
        largest = self.coder.coded(self._narrow(possible_integers(self.coder.bundle), wide), wide)
        provenance = largest.manifest.provenance | {KEY: longest_record(largest.domains)}
        recorded = Bundle(largest.manifest.model_copy(update={"provenance": provenance}), largest.arrays)
        return bundle_size(recorded, "int8") <= self.most_bytes

    def _judged(self, integers: Collection[int], wide: Collection[str] = ()) -> Decision:
        """Return a choice and what it loses; a choice is measured once, which takes seconds."""
        choice = frozenset(integers), frozenset(wide)
        if choice not in self._known:
            coder = self.coder.corrected(self.images, integers, wide, self.correcting)
            self._known[choice] = coder, self.judge.losses(coder.coded(integers, wide))
        coder, losses = self._known[choice]  # of the bundle only the moved biases are kept, since weights take room
        return Decision(coder.coded(integers, wide), losses)


def _shortest(most: int, decide: Callable[[int], Decision], is_enough: Callable[[Losses], bool]) -> Decision | None:
    """Return the first of `most` decisions that loses little enough, as if later ones lost less; None if none does."""
    best = decide(most)
    if not is_enough(best.losses):
        return None
    low, high = 0, most  # too few and enough
    while high - low > 1:
        # steps are short at first, since few operations are to blame as a rule
        middle = min(max(low + 1, 2 * low), (low + high) // 2)
        found = decide(middle)
        if is_enough(found.losses):
            best, high = found, middle
        else:
            low = middle
    return best


def _others(layers: Collection[str], layer: str) -> tuple[str, ...]:
    return tuple(other for other in layers if other != layer)
