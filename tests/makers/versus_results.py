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


RESULTS = versus(
    [
        row("lora", 0, 0.8, 5_000_000, 2.0),
        row("probe", 0, 0.5, 700_000, 0.4),
        row("ours", 0, 0.81, 800_000, 1.0),
        row("ours_int8", 0, 0.6, 200_000, 0.3),
    ],
    {"pruned": "it has no layer to cut"},
)
