"""Runs that can be compared: rows of the paper's table, scores, and who is on the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from prunus.measure.comparison import Comparison, ComparisonRow
from prunus.measure.score import Scores, decathlon_score, efficiency_scores
from prunus.report.comparison import OVER, row_label
from prunus.report.page.run import FEATURE, FINETUNE, ReportedRun


@dataclass(frozen=True)
class Entry:
    """A run in its board: its row of the table, and whether no other run is both smaller and better.

    Args:
        label: method, settings and budget, as the table names it.
        anchor: of its section on the page.
    """

    run: ReportedRun
    row: ComparisonRow
    label: str
    anchor: str
    on_params_front: bool
    on_macs_front: bool

    @property
    def subtitle(self) -> str:
        """Give the run's name where it says more than the label."""
        return "" if self.run.name == self.label.replace(" β=", "-").removesuffix(OVER) else self.run.name


@dataclass(frozen=True)
class Board:
    """Runs of the same backbone, domains and split."""

    backbone: str
    split: str
    domains: tuple[str, ...]
    entries: tuple[Entry, ...]

    @property
    def comparison(self) -> Comparison:
        """Return the board as a comparison."""
        rows = tuple(entry.row for entry in self.entries)
        return Comparison(domains=self.domains, backbone=self.backbone, split=self.split, rows=rows)

    @property
    def feature(self) -> Entry | None:
        """Give the feature extractor, if it was measured."""
        return next((entry for entry in self.entries if entry.run.results.method == FEATURE), None)


def make_boards(runs: Sequence[ReportedRun]) -> list[Board]:
    """Put runs that can be compared side by side, in the order of the paper's tables: baselines, then budgets."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[ReportedRun]] = {}
    for run in runs:
        key = (run.results.backbone, run.results.split, tuple(sorted(run.results.domains)))
        groups.setdefault(key, []).append(run)
    anchors = {run.name: f"run-{number}" for number, run in enumerate(runs, 1)}
    return [_board(sorted(group, key=_place), anchors) for group in groups.values()]


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """List the points (cost, accuracy) that no other beats in one without losing in the other, cheapest first."""
    front: list[int] = []
    for place in sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1])):
        if not front or points[place][1] > points[front[-1]][1]:
            front.append(place)
    return front


def _board(runs: Sequence[ReportedRun], anchors: dict[str, str]) -> Board:
    domains = tuple(runs[0].results.domains)
    scores = _scores(runs, domains)
    rows = [_row(run, _telling(run, runs), domains, score) for run, score in zip(runs, scores, strict=True)]
    accuracies = [run.results.mean_accuracy for run in runs]
    by_params = pareto_front([(run.results.params_ratio, a) for run, a in zip(runs, accuracies, strict=True)])
    by_macs = pareto_front([(run.results.macs_ratio, a) for run, a in zip(runs, accuracies, strict=True)])
    entries = [
        Entry(run, row, row_label(row), anchors[run.name], place in by_params, place in by_macs)
        for place, (run, row) in enumerate(zip(runs, rows, strict=True))
    ]
    return Board(runs[0].results.backbone, runs[0].results.split, domains, tuple(entries))


def _place(run: ReportedRun) -> tuple[bool, bool, str, float, str]:
    budget = run.results.budget
    return run.results.method != FEATURE, budget is not None, run.results.method, -(budget or 0), run.name


def _row(
    run: ReportedRun, options: dict[str, JsonValue], domains: Sequence[str], scores: Scores | None
) -> ComparisonRow:
    results = run.results
    return ComparisonRow(
        name=run.name,
        method=results.method,
        options=options,
        budget=results.budget,
        largest_usage=results.largest_usage,
        union=results.union,
        macs_ratio=results.macs_ratio,
        params_ratio=results.params_ratio,
        stored_bytes=results.stored_bytes,
        accuracies={name: results.domains[name].accuracy for name in domains},
        mean_accuracy=results.mean_accuracy,
        scores=scores,
        seconds=results.seconds,
    )


def _settings(run: ReportedRun) -> dict[str, JsonValue]:
    results = run.results
    epochs = {"epochs": run.recipe["training.epochs"]} if "training.epochs" in run.recipe else {}
    sharing = {} if results.sharing in (None, results.method) else {"sharing": results.sharing}
    return results.options | sharing | epochs | {"seed": results.seed}


def _telling(run: ReportedRun, runs: Sequence[ReportedRun]) -> dict[str, JsonValue]:
    """Keep the settings that tell a run from others of its method and budget: all of them would fill the table."""
    kind = (run.results.method, run.results.budget)
    others = [_settings(each) for each in runs if (each.results.method, each.results.budget) == kind]
    return {key: value for key, value in _settings(run).items() if any(other.get(key) != value for other in others)}


def _scores(runs: Sequence[ReportedRun], domains: Sequence[str]) -> list[Scores | None]:
    """Score against fine-tuning where it was run; else take what the recipe's own numbers gave."""
    first = {run.results.method: _accuracies(run, domains) for run in reversed(runs)}
    if FINETUNE not in first:
        return [run.results.scores for run in runs]
    feature = decathlon_score(first[FEATURE], first[FINETUNE]) if FEATURE in first else None
    found: list[Scores | None] = []
    for run in runs:
        score = decathlon_score(_accuracies(run, domains), first[FINETUNE])
        found.append(efficiency_scores(score, run.results.macs_ratio, run.results.params_ratio, feature))
    return found


def _accuracies(run: ReportedRun, domains: Sequence[str]) -> list[float]:
    return [run.results.domains[name].accuracy for name in domains]
