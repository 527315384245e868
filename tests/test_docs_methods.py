"""The page about methods says of their comparison what was measured."""

import json
from pathlib import Path
from statistics import mean

from prunus.measure.comparison import Comparison, ComparisonRow, near_best
from prunus.methods.table import METHODS
from prunus.report.comparison import to_markdown
from prunus.uncertainty import is_noise

ROOT = Path(__file__).parents[1]


def test_the_methods_page_shows_the_table_that_the_comparison_wrote() -> None:
    folder = ROOT / "docs" / "results" / "compare"
    written = (folder / "comparison.md").read_text()
    assert written in (ROOT / "docs" / "methods.md").read_text()
    comparison = Comparison.model_validate_json((folder / "comparison.json").read_bytes())
    assert to_markdown(comparison) == written
    assert {row.method for row in comparison.rows} == set(METHODS)


def test_the_comparison_of_all_methods_has_three_seeds_and_their_spread() -> None:
    comparison = Comparison.model_validate_json((ROOT / "docs/results/compare/comparison.json").read_bytes())
    assert comparison.failed == {}
    assert {row.seeds for row in comparison.rows} == {(0, 1, 2)}
    assert all(row.spread is not None for row in comparison.rows)


def _is_noise(first: ComparisonRow, second: ComparisonRow) -> bool:
    low, high = sorted((first, second), key=lambda row: row.mean_accuracy)
    assert low.mean_accuracy_interval
    assert high.mean_accuracy_interval
    return is_noise(high.mean_accuracy, high.mean_accuracy_interval, low.mean_accuracy, low.mean_accuracy_interval)


def test_the_methods_page_says_of_the_comparison_only_what_its_intervals_support() -> None:
    comparison = Comparison.model_validate_json((ROOT / "docs/results/compare/comparison.json").read_bytes())
    rows = {row.method: row for row in comparison.rows}
    text = " ".join((ROOT / "docs" / "methods.md").read_text().split())
    assert max(comparison.rows, key=lambda row: row.mean_accuracy).method == "weight_transform"
    near = {comparison.rows[index].method for index in near_best(comparison.rows)}
    assert len(near) == 8
    limited = {name for name, row in rows.items() if row.budget is not None}
    below = rows.keys() - near - {"weight_transform"}
    assert below == limited | {"feature", "bn", "da3", "piggyback"}
    assert not any(_is_noise(rows[name], rows["finetune"]) for name in below)
    assert all(_is_noise(rows[first], rows[second]) for first in limited for second in (*limited, "feature"))
    means = sorted(100 * rows[name].mean_accuracy for name in limited)
    assert f"between {means[0]:.1f} and {means[-1]:.1f} %" in text
    assert f"`feature` ({100 * rows['feature'].mean_accuracy:.1f} %)" in text
    assert rows["piggyback"].accuracies == rows["feature"].accuracies
    pairs = [
        (rows["weight_transform"].accuracies[name], other) for name, other in rows["affine_masks"].accuracies.items()
    ]
    assert f"agree within {100 * max(abs(one - other) for one, other in pairs):.1f} points in every domain" in text
    sizes = sorted(limited, key=lambda name: rows[name].params_ratio)
    assert sizes[:2] == ["exact", "union"]
    shown = [f"{rows[sizes[index]].params_ratio:.2f}" for index in (0, 1, 2, -1)]
    first, second, third, last = shown
    assert (
        f"`exact` stores {first} of the backbone's parameters, `union` {second}, and the others {third} to {last}"
        in text
    )
    assert {name for name in limited if rows[name].budget_kept} == {"exact", "ba2", "ba2_individual"}
    assert rows["early_exits"].macs_ratio == rows["parallel_adapters"].macs_ratio


def test_the_methods_page_says_how_piggyback_depends_on_its_rate() -> None:
    text = " ".join((ROOT / "docs" / "methods.md").read_text().split())
    runs = json.loads((ROOT / "docs" / "results" / "compare" / "piggyback_rates.json").read_text())
    accuracy: dict[float | None, float] = {}
    for rate in (None, 1e-4, 1.5e-4, 2e-4):  # None: the feature extractor
        found = [run["mean_accuracy"] for run in runs if run["lr"] == 0.05 and run["score_lr"] == rate]
        assert len(found) == 2
        accuracy[rate] = 100 * mean(found)
    assert accuracy[1e-4] == accuracy[None]
    lost = [accuracy[None] - accuracy[rate] for rate in (1.5e-4, 2e-4)]
    assert f"1.5e-4 loses {lost[0]:.0f} points, 2e-4 loses {lost[1]:.0f}" in text
    fast = [run for run in runs if run["lr"] == 0.05 and run["score_lr"] == 3e-4]
    shares = sorted(100 * run["accuracies"]["characters"] for run in fast)
    assert f"at 3e-4 `characters` falls to {shares[0]:.0f} and {shares[1]:.0f} %" in text


def test_the_methods_page_names_every_method_and_the_memory_that_was_measured() -> None:
    text = (ROOT / "docs" / "methods.md").read_text()
    assert [name for name in METHODS if f"`{name}`" not in text] == []
    held = json.loads((ROOT / "docs" / "results" / "benchmarks" / "activation_memory.json").read_text())["held_bytes"]
    assert f"{held['da3'] / 1e6:.0f} MB of activations" in text
    assert f"{held['bn'] / 1e6:.0f} MB for `bn`" in text


def test_what_is_said_of_early_exits_in_a_longer_run_was_measured() -> None:
    found = json.loads((ROOT / "docs/results/compare/early_exits.json").read_text())
    text = " ".join((ROOT / "docs" / "methods.md").read_text().split())
    early = [name for name, domain in found["domains"].items() if domain["usage"] < 1]
    assert early == ["fruits", "signs"]
    assert "In fifteen epochs `fruits` and `signs` leave before the last of three stages" in text
    assert found["command"].partition(";")[0] in text
    (share,) = {found["domains"][name]["macs_ratio"] for name in early}
    assert (
        f"they compute {share:.2f} of the backbone's MACs, and all domains {found['macs_ratio']:.2f} on average" in text
    )
