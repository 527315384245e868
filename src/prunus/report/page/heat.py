"""Tables whose cells are coloured by their values: usage, sharing and confusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prunus.measure.by_class.confusion import ByClass, ClassResult
from prunus.measure.cost import CostReport
from prunus.report.training_curves import ANY

MOST_CLASSES = 16  # in a table of confusions
WORST = 10  # classes that are listed at once


@dataclass(frozen=True)
class Cell:
    """A cell: its text, its share of the strongest colour in percent, and what it means."""

    text: str
    strength: int
    is_wrong: bool = False
    meaning: str = ""


@dataclass(frozen=True)
class HeatTable:
    """A table with names of rows and columns.

    Args:
        corner: what rows and columns are.
    """

    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True)
class ClassesView:
    """The classes of a domain as the page shows them.

    Args:
        matrix: of all classes, or of those in the most mistakes.
        omitted: number of classes that are not in the matrix.
        worst: classes with the lowest accuracy, lowest first.
        others: the remaining classes that have images.
    """

    by_class: ByClass
    matrix: HeatTable
    omitted: int
    worst: tuple[ClassResult, ...]
    others: tuple[ClassResult, ...]


def usage_table(costs: CostReport) -> HeatTable:
    """Show the share of each layer's kernels used by each domain and by any domain."""
    rows = [[*costs.layer_usage(layer).values(), layer.union / layer.num_kernels] for layer in costs.layers]
    return _shares("layer", [*costs.domains, ANY], [layer.name for layer in costs.layers], rows)


def sharing_table(sharing: Mapping[str, Mapping[str, float]]) -> HeatTable:
    """Show how much each pair of domains shares."""
    return _shares("domain", list(sharing), list(sharing), [list(row.values()) for row in sharing.values()])


def classes_view(by_class: ByClass) -> ClassesView:
    """Choose what to show of a domain's classes."""
    shown = _most_confused(by_class)
    ranked = sorted((c for c in by_class.classes if c.images), key=lambda c: (c.correct / c.images, -c.images))
    return ClassesView(
        by_class,
        confusion_table(by_class, shown),
        len(by_class.classes) - len(shown),
        tuple(ranked[:WORST]),
        tuple(ranked[WORST:]),
    )


def confusion_table(by_class: ByClass, shown: Sequence[int]) -> HeatTable:
    """Show how many images of each true class (rows) are given each class (columns)."""
    names = [by_class.classes[index].name for index in shown]
    matrix = by_class.matrix()
    rows = [
        (
            by_class.classes[truth].name,
            tuple(_count(by_class, matrix[truth][predicted], truth, predicted) for predicted in shown),
        )
        for truth in shown
    ]
    return HeatTable("true class", tuple(names), tuple(rows))


def _count(by_class: ByClass, count: int, truth: int, predicted: int) -> Cell:
    if not count:
        return Cell("", 0)
    row = by_class.classes[truth]
    meaning = f"{count} of {row.images} images of {row.name} are classified as {by_class.classes[predicted].name}"
    return Cell(str(count), round(100 * count / row.images), truth != predicted, meaning)


def _most_confused(by_class: ByClass) -> list[int]:
    """Return the classes in the most mistakes, in their order; all of them if they are few."""
    classes = range(len(by_class.classes))
    if len(classes) <= MOST_CLASSES:
        return list(classes)
    places = {result.name: place for place, result in enumerate(by_class.classes)}
    mistakes = dict.fromkeys(classes, 0)
    for confusion in by_class.confusions:
        mistakes[places[confusion.truth]] += confusion.images
        mistakes[places[confusion.predicted]] += confusion.images
    return sorted(sorted(classes, key=lambda place: -mistakes[place])[:MOST_CLASSES])


def _shares(corner: str, columns: Sequence[str], names: Sequence[str], rows: Sequence[Sequence[float]]) -> HeatTable:
    cells = [tuple(Cell(f"{100 * share:.0f}", round(100 * share)) for share in row) for row in rows]
    return HeatTable(corner, tuple(columns), tuple(zip(names, cells, strict=True)))
