"""Keep operations in floats until 8 bits lose little enough.

First, all operations that can compute with integers do so. If that loses too much on held-out images, operations
return to floats, those first that change the logits most on their own. Their weights stay in 8 bits, so the file does
not grow. Only if all operations in floats still lose too much, layers store their weights as float16, as far as there
is room.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.splitting import possible_integers
from prunus.bundle.file import bundle_size
from prunus.quantizing.coding import Coder
from prunus.quantizing.judging import Judge, Losses, is_within


@dataclass(frozen=True)
class Decision:
    """The 8-bit bundle that was chosen, and what it loses."""

    bundle: Bundle
    losses: Losses


@dataclass(frozen=True)
class Gate:
    """What decides: codes of a bundle, images to judge them by, and the bytes that a file may have."""

    coder: Coder
    judge: Judge
    most_bytes: int | None = None

    def decide(self) -> Decision:
        """Return the bundle with the fewest operations in floats that loses little enough, or the one nearest to it."""
        possible = possible_integers(self.coder.bundle)
        first = self._judged(possible)
        if is_within(first.losses):
            return first
        ranked = sorted(possible, key=lambda number: self.judge.distance(self.coder.coded((number,))), reverse=True)
        found = _shortest(len(ranked), lambda count: self._judged(_without(possible, ranked[:count])))
        return found or self._widened(possible)

    def _widened(self, possible: Collection[int]) -> Decision:
        """Return a bundle of operations in floats, in which the layers that need it most have wide weights."""
        layers = tuple(self.coder.bundle.manifest.convs)
        ranked = sorted(layers, key=lambda layer: self.judge.distance(self._wide(_others(layers, layer))), reverse=True)
        room = max(count for count in range(len(layers) + 1) if self._fits(ranked[:count]))
        found = _shortest(room, lambda count: self._decided(self._wide(ranked[:count])))
        return found or self._decided(self._wide(ranked[:room]))

    def _fits(self, wide: Collection[str]) -> bool:
        return not wide or self.most_bytes is None or bundle_size(self._wide(wide), "int8") <= self.most_bytes

    def _wide(self, wide: Collection[str]) -> Bundle:
        return self.coder.coded((), wide)

    def _judged(self, integers: Collection[int]) -> Decision:
        return self._decided(self.coder.coded(integers))

    def _decided(self, bundle: Bundle) -> Decision:
        return Decision(bundle, self.judge.losses(bundle))


def _shortest(most: int, decide: Callable[[int], Decision]) -> Decision | None:
    """Return the first of `most` decisions that loses little enough, as if later ones lost less; None if none does."""
    best = decide(most)
    if not is_within(best.losses):
        return None
    low, high = 0, most  # too few and enough
    while high - low > 1:
        # steps are short at first, since few operations are to blame as a rule
        middle = min(max(low + 1, 2 * low), (low + high) // 2)
        found = decide(middle)
        if is_within(found.losses):
            best, high = found, middle
        else:
            low = middle
    return best


def _without(numbers: Collection[int], left_out: Collection[int]) -> tuple[int, ...]:
    return tuple(number for number in numbers if number not in set(left_out))


def _others(layers: Collection[str], layer: str) -> tuple[str, ...]:
    return tuple(other for other in layers if other != layer)
