"""Comparing runs: the front, the scores, and rows that say what tells runs apart."""

import pytest

from prunus.measure.comparison import Comparison, ComparisonRow, pareto_front
from prunus.measure.evaluation import Evaluation
from prunus.measure.score import Scores, decathlon_score, efficiency_scores
from prunus.report.comparison import to_markdown
from prunus.report.page.board import Board, make_boards
from prunus.report.page.run import ReportedRun
from tests.makers.run_folders import results

DOMAINS = ("birds", "flowers")
MEASURED = [  # method, budget, accuracies, ratios of MACs and parameters, largest usage, union
    ("feature", None, (0.85, 0.65), (1.0, 1.0), 1.0, 1.0),
    ("bn", None, (0.87, 0.70), (1.0, 1.0), 1.0, 1.0),
    ("finetune", None, (0.90, 0.80), (1.0, 2.0), 1.0, 1.0),
    ("ba2", 0.5, (0.88, 0.79), (0.55, 0.95), 0.51, 0.92),  # a domain is over the budget
    ("ba2", 0.25, (0.85, 0.81), (0.37, 0.73), 0.25, 0.70),  # without a sharing loss the union is no limit
    ("union", 0.5, (0.86, 0.74), (0.38, 0.52), 0.40, 0.50),
    ("union", 0.25, (0.82, 0.70), (0.25, 0.29), 0.20, 0.27),  # all domains together are over the budget
    ("jaccard", 0.25, (0.15, 0.40), (0.63, 0.61), 0.58, 0.58),  # S is 0 in both domains
    ("series_adapters", None, (0.91, 0.80), (1.135, 1.64), 1.0, 1.0),
]


def _run(name: str, *arguments: object, recipe: dict[str, str] | None = None, **more: object) -> ReportedRun:
    return ReportedRun(name, Evaluation.model_validate(results(*arguments, **more)), recipe or {})  # type: ignore[arg-type]


def _board(*runs: ReportedRun) -> Board:
    (board,) = make_boards(runs)
    return board


def test_the_front_holds_what_nothing_beats_in_one_without_losing_in_the_other() -> None:
    points = [(1.0, 5.0), (2.0, 4.0), (2.0, 7.0), (3.0, 7.0), (4.0, 9.0), (0.5, 1.0), (4.0, 8.0)]
    assert pareto_front(points) == [5, 0, 2, 4]
    assert pareto_front([(1.0, 1.0)]) == [0]
    for place, (cost, accuracy) in enumerate(points):  # by the definition
        beaten = any(c <= cost and a >= accuracy and (c, a) != (cost, accuracy) for c, a in points)
        assert (place in pareto_front(points)) != beaten


def _compared() -> Comparison:
    """Return what a comparison of one seed writes, with scores by their formulas."""
    accuracies = {method: found for method, _, found, *_ in MEASURED}
    feature_score = decathlon_score(accuracies["feature"], accuracies["finetune"])
    rows = []
    for method, budget, found, (macs, params), usage, union in MEASURED:
        score = decathlon_score(found, accuracies["finetune"])
        rows.append(
            ComparisonRow(
                name=method if budget is None else f"{method}-{budget:g}",
                method=method,
                options={},
                budget=budget,
                largest_usage=usage,
                union=union,
                macs_ratio=macs,
                params_ratio=params,
                stored_bytes=880_000,
                accuracies=dict(zip(DOMAINS, found, strict=True)),
                mean_accuracy=sum(found) / len(found),
                scores=efficiency_scores(score, macs, params, feature_score),
            )
        )
    return Comparison(domains=DOMAINS, backbone="wrn14_2", split="test", rows=tuple(rows))


def test_the_table_is_the_one_that_the_comparison_wrote() -> None:
    compared = _compared()
    runs = []
    for row in compared.rows:
        content = results(row.method, row.budget, row.accuracies, (row.params_ratio, row.macs_ratio), union=row.union)
        for domain in content["domains"].values():
            domain["usage"] = row.largest_usage
        runs.append(ReportedRun(row.name, Evaluation.model_validate(content)))
    ours = to_markdown(_board(*runs).comparison).splitlines()
    assert sorted(ours) == sorted(to_markdown(compared).splitlines())
    assert "| ba2 β=0.5* | 0.550 | 0.95 | 88.0 | 79.0 | 83.5 | 386 | 701 | 406 | 46.63 |" in ours
    assert "| union β=0.25* | 0.250 | 0.29 | 82.0 | 70.0 | 76.0 | 72.50 | 290 | 250 | 11.88 |" in ours


def test_runs_on_other_domains_or_backbones_are_not_compared() -> None:
    runs = [
        _run("a"),
        _run("b", accuracies={"flowers": 0.1, "birds": 0.2}),  # the order of the domains does not matter
        _run("c", accuracies={"birds": 0.5}),
        _run("d", backbone="resnet50"),
        _run("e", split="validation"),
    ]
    assert [[entry.run.name for entry in board.entries] for board in make_boards(runs)] == [
        ["a", "b"],
        ["c"],
        ["d"],
        ["e"],
    ]


def test_settings_are_shown_only_where_they_tell_runs_apart() -> None:
    long, short = {"training.epochs": "15"}, {"training.epochs": "3"}
    board = _board(
        _run("a", options={"granularity": "kernel"}, recipe=long),
        _run("b", options={"granularity": "kernel"}, recipe=short),
        _run("c", "ba2", sharing="soft_overlap", recipe=long),
    )
    assert [entry.label for entry in board.entries] == ["ba2 β=0.5", "union epochs=15 β=0.5", "union epochs=3 β=0.5"]


def test_without_fine_tuning_scores_are_those_of_the_recipe_or_none() -> None:
    scores = {"s": 1.0, "s_o": 2.0, "s_p": 3.0, "s_e": None}
    rows = _board(_run("a", scores=scores), _run("b")).comparison.rows
    assert rows[0].scores == Scores.model_validate(scores)
    assert rows[1].scores is None


def test_with_fine_tuning_a_run_is_scored_against_it() -> None:
    rows = {
        row.method: row.scores
        for row in _board(
            _run("f", "finetune", None, {"birds": 0.8, "flowers": 0.6}, (2.0, 1.0)),
            _run("x", "feature", None, {"birds": 0.7, "flowers": 0.5}, (1.0, 1.0)),
            _run("u", "union", 0.5, {"birds": 0.9, "flowers": 0.6}, (0.5, 0.25)),
        ).comparison.rows
    }
    expected = 1000 * ((0.4 - 0.1) / 0.4) ** 2 + 1000 * ((0.8 - 0.4) / 0.8) ** 2
    feature = 1000 * ((0.4 - 0.3) / 0.4) ** 2 + 1000 * ((0.8 - 0.5) / 0.8) ** 2
    scores = rows["union"]
    assert scores is not None
    assert scores.s == pytest.approx(expected)
    assert scores.s_o == pytest.approx(expected / 0.25)
    assert scores.s_p == pytest.approx(expected / 0.5)
    assert scores.s_e == pytest.approx(expected / 0.25 * expected / 0.5 / feature**2)


def test_the_source_of_a_board_is_that_of_all_its_runs() -> None:
    first, second = _run("a", source="birds"), _run("b", source="birds")
    assert _board(first, second).source == _board(first, second).comparison.source == "birds"
    assert _board(first, _run("c")).source is None
