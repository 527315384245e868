"""Match the names of tensors in a weights file with those of a network."""

from collections.abc import Collection, Iterator, Mapping

from torch import Tensor

# what wrappers of a network put in front of its names: DataParallel, Lightning, torch.compile and training scripts
PREFIXES = ("module.", "model.", "backbone.", "encoder.", "_orig_mod.", "network.", "net.")
MOST_PREFIXES = 4  # in front of one name
# usual names of what comes after the features
HEADS = frozenset(
    {"fc", "classifier", "head", "heads", "head_dist", "linear", "logits", "last_linear", "output", "aux_classifier"}
)
COUNTERS = ("num_batches_tracked", "n_averaged")  # batches and averages, on which no prediction depends


def is_counter(name: str) -> bool:
    """Return whether a tensor only counts training steps."""
    return name.rpartition(".")[2] in COUNTERS


def without_prefixes(tensors: Mapping[str, Tensor], targets: Collection[str]) -> dict[str, Tensor]:
    """Take off the usual prefixes with which most names are those of the network, and as few as possible."""
    return max(_stripped(dict(tensors), MOST_PREFIXES), key=lambda named: sum(name in named for name in targets))


def left_over(names: Collection[str], targets: Collection[str], head: Collection[str]) -> list[str]:
    """Return the names of a file that belong neither to a network nor to its classifier.

    Args:
        head: names that are known to belong to the classifier.
    """
    parts = {name.partition(".")[0] for name in targets}
    return [
        name
        for name in names
        if name not in targets
        and name not in head
        and not is_counter(name)
        and name.partition(".")[0] not in HEADS - parts
    ]


def _stripped(named: dict[str, Tensor], levels: int) -> Iterator[dict[str, Tensor]]:
    """Yield the same tensors without any prefix, without one, and so on; the first of several equals is chosen."""
    yield named
    for prefix in PREFIXES if levels else ():
        shorter = {name.removeprefix(prefix): tensor for name, tensor in named.items()}
        if len(shorter) == len(named) and shorter.keys() != named.keys():
            yield from _stripped(shorter, levels - 1)
