"""How long the values of a network are needed."""

from collections.abc import Sequence


def unused_after(inputs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return, for every operation, the values that no later one reads; a value that none reads goes at once.

    Args:
        inputs: of each operation, the values that it reads: 0 is the image, k + 1 the result of operation k.
    """
    last = {value: max(value - 1, 0) for value in range(len(inputs))}
    last |= {value: number for number, read in enumerate(inputs) for value in read}
    unused: list[list[int]] = [[] for _ in inputs]
    for value, reader in last.items():
        unused[reader].append(value)
    return unused
