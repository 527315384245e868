"""Results of `prunus versus` whose numbers are easy to follow."""

from collections.abc import Mapping, Sequence

from prunus.measure.alternatives.results import Versus, VersusRow
from prunus.measure.speed import Timing

IMAGES = {"birds": 100, "flowers": 400}


def row(name: str, seed: int, accuracy: float, total_bytes: int, milliseconds: float) -> VersusRow:
    """Return a row whose two domains are 0.1 above and below an accuracy, and a tenth faster and slower."""
    accuracies = {"birds": accuracy + 0.1, "flowers": accuracy - 0.1}
    right = {domain: round(share * IMAGES[domain]) for domain, share in accuracies.items()}
    times = (0.9 * milliseconds, 1.1 * milliseconds)
    return VersusRow(
        name=name,
        seed=seed,
        accuracies=accuracies,
        correct={domain: ("1" * count).ljust(IMAGES[domain], "0") for domain, count in right.items()},
        total_bytes=total_bytes,
        macs={"birds": 10, "flowers": 30},
        latencies={domain: Timing(median_ms=ms, p95_ms=2 * ms) for domain, ms in zip(IMAGES, times, strict=True)},
    )


def versus(rows: Sequence[VersusRow], failed: Mapping[str, str] | None = None) -> Versus:
    """Return the results of these rows."""
    return Versus(
        backbone="wrn14_2",
        split="test",
        titles={row.name: f"what {row.name} is" for row in rows},
        images=IMAGES,
        machine="a machine",
        prunus_engine="avx2",
        versions={"torch": "2.9"},
        rows=tuple(rows),
        failed=dict(failed or {}),
    )
