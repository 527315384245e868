"""Recompute the paper's two result tables from its own accuracies."""

from prunus.report.paper_tables import DECATHLON_ROWS, IMAGENET_TO_SKETCH_ROWS, RecomputedRow, recompute


def tables() -> list[RecomputedRow]:
    """Recompute all 28 rows of both tables."""
    return [*recompute("decathlon", DECATHLON_ROWS), *recompute("imagenet_to_sketch", IMAGENET_TO_SKETCH_ROWS)]
