"""Group runs that can be compared, score them, and find the Pareto fronts."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from prunus.measure.comparison import Comparison, ComparisonRow, pareto_front
from prunus.measure.evaluation import Evaluation
from prunus.measure.score import FEATURE, FINETUNE, Scores, decathlon_score, efficiency_scores
from prunus.report.comparison import OVER, row_label
from prunus.report.page.run import ReportedRun

COSTS = {"params": "parameters", "macs": "MACs"}  # cost -> its title
FROZEN = f"{FEATURE} (frozen backbone)"  # how legends name the feature extractor


@dataclass(frozen=True)
class Entry:
    """A run on a board.

    Args:
        row: its row of the table.
        anchor: id of its section on the page.
        fronts: costs on whose Pareto front it lies.
    """

    run: ReportedRun
    row: ComparisonRow
    anchor: str
    fronts: tuple[str, ...]

    @property
    def label(self) -> str:
        """Return method, settings and budget, as in the table."""
        return row_label(self.row)

    @property
    def title(self) -> str:
        """Return the label, for the feature extractor with what it is."""
        return self.label.replace(FEATURE, FROZEN, 1) if self.run.results.method == FEATURE else self.label

    @property
    def subtitle(self) -> str:
        """Return the run's name if it says more than the label."""
        return "" if self.run.name == self.label.replace(" β=", "-").removesuffix(OVER) else self.run.name


@dataclass(frozen=True)
class Board:
    """Runs of the same backbone, domains and split."""

    backbone: str
    split: str
    domains: tuple[str, ...]
    entries: tuple[Entry, ...]
    source: str | None = None

    @property
    def comparison(self) -> Comparison:
        """Return the board as a comparison."""
        rows = tuple(entry.row for entry in self.entries)
        return Comparison(domains=self.domains, backbone=self.backbone, split=self.split, rows=rows, source=self.source)

    @property
    def has_feature_extractor(self) -> bool:
        """Return whether the feature extractor was measured."""
        return any(entry.run.results.method == FEATURE for entry in self.entries)

    def front(self, cost: str) -> list[Entry]:
        """Return the runs on the Pareto front of a cost, cheapest first."""
        entries = [entry for entry in self.entries if cost in entry.fronts]
        return sorted(entries, key=lambda entry: cost_of(entry.run.results, cost))


def make_boards(runs: Sequence[ReportedRun]) -> list[Board]:
    """Group runs that can be compared, in the order of the paper's tables: baselines first, then by budget."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[ReportedRun]] = {}
    for run in runs:
        key = (run.results.backbone, run.results.split, tuple(sorted(run.results.domains)))
        groups.setdefault(key, []).append(run)
    anchors = {run.name: f"run-{number}" for number, run in enumerate(runs, 1)}
    return [_board(sorted(group, key=_order), anchors) for group in groups.values()]


def cost_of(results: Evaluation, cost: str) -> float:
    """Return a cost in percent of the dense backbone's."""
    return 100 * (results.params_ratio if cost == "params" else results.macs_ratio)


def positions(entries: Sequence[Entry], cost: str) -> tuple[list[float], list[float]]:
    """Return the costs and the mean accuracies of runs, in percent."""
    results = [entry.run.results for entry in entries]
    return [cost_of(result, cost) for result in results], [100 * result.mean_accuracy for result in results]


def _board(runs: Sequence[ReportedRun], anchors: dict[str, str]) -> Board:
    first = runs[0].results
    scores = _scores(runs, list(first.domains))
    rows = [
        ComparisonRow.of(run.name, run.results, _distinct_settings(run, runs), score)
        for run, score in zip(runs, scores, strict=True)
    ]
    fronts = {
        cost: pareto_front([(cost_of(run.results, cost), run.results.mean_accuracy) for run in runs]) for cost in COSTS
    }
    entries = tuple(
        Entry(run, row, anchors[run.name], tuple(cost for cost, front in fronts.items() if index in front))
        for index, (run, row) in enumerate(zip(runs, rows, strict=True))
    )
    return Board(first.backbone, first.split, tuple(first.domains), entries, _common_source(runs))


def _common_source(runs: Sequence[ReportedRun]) -> str | None:
    """Return the source of all runs; None if they do not agree."""
    sources = {run.results.source for run in runs}
    return sources.pop() if len(sources) == 1 else None


def _order(run: ReportedRun) -> tuple[bool, bool, str, float, str]:
    budget = run.results.budget
    return run.results.method != FEATURE, budget is not None, run.results.method, -(budget or 0), run.name


def _settings(run: ReportedRun) -> dict[str, JsonValue]:
    results = run.results
    epochs = {"epochs": run.recipe["training.epochs"]} if "training.epochs" in run.recipe else {}
    sharing = {} if results.sharing in (None, results.method) else {"sharing": results.sharing}
    return results.options | sharing | epochs | {"seed": results.seed}


def _distinct_settings(run: ReportedRun, runs: Sequence[ReportedRun]) -> dict[str, JsonValue]:
    """Return the settings in which a run differs from others of its method and budget."""
    kind = (run.results.method, run.results.budget)
    others = [_settings(other) for other in runs if (other.results.method, other.results.budget) == kind]
    return {key: value for key, value in _settings(run).items() if any(other.get(key) != value for other in others)}


def _scores(runs: Sequence[ReportedRun], domains: Sequence[str]) -> list[Scores | None]:
    """Score runs against fine-tuning if it is among them, else return the scores they were measured with."""
    accuracies = [[run.results.accuracies[name] for name in domains] for run in runs]
    by_method = {run.results.method: row for run, row in zip(reversed(runs), reversed(accuracies), strict=True)}
    if FINETUNE not in by_method:
        return [run.results.scores for run in runs]
    finetuned = by_method[FINETUNE]
    feature = decathlon_score(by_method[FEATURE], finetuned) if FEATURE in by_method else None
    return [
        efficiency_scores(decathlon_score(row, finetuned), run.results.macs_ratio, run.results.params_ratio, feature)
        for run, row in zip(runs, accuracies, strict=True)
    ]
