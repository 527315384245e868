"""docs/domains.md shows what the benchmark of additions has measured."""

import argparse
import json
import statistics
import sys
from pathlib import Path

import pytest

import prunus
from benchmarks.added_domains import ROWS, Results, read, summary_of, write

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "domains.md").read_text()
FILE = ROOT / "docs" / "results" / "added_domains.json"
RESULTS = read(FILE)
SUMMARIES = {row: summary for row in ROWS if (summary := summary_of(RESULTS, row))}


def prose() -> str:
    return " ".join(PAGE.split())


def test_the_table_shows_the_means_and_the_range_of_three_seeds() -> None:
    assert {seed for _, _, seed in RESULTS} == {0, 1, 2}
    means = {
        (row, domain): 100 * statistics.fmean(RESULTS[row, domain, seed] for seed in range(3))
        for row, domain, _ in RESULTS
    }
    domains = sorted({domain for _, domain in means})
    assert len(domains) == 9
    for domain in domains:
        cells = [f"{means['joint', domain]:.1f}"]
        for row in ROWS:
            gaps = SUMMARIES[row].gaps[domain].values()
            gap = means[row, domain] - means["joint", domain]
            cells += [f"{means[row, domain]:.1f} ({gap:+.1f})", f"{min(gaps):+.1f} to {max(gaps):+.1f}"]
        assert f"| {' | '.join(cells)} |" in PAGE
    inside, grown = (SUMMARIES[row].mean for row in ("inside", "grown"))
    assert f"| **mean** | | **{inside:+.1f}** | | **{grown:+.1f}** | |" in PAGE
    assert inside >= -2
    assert min(statistics.fmean(gaps.values()) for gaps in SUMMARIES["inside"].gaps.values()) >= -4
    assert grown >= -1


def test_the_page_names_the_worst_seed_and_what_carries_the_mean() -> None:
    inside = SUMMARIES["inside"]
    gap, domain, seed = inside.worst
    assert f"The worst is {domain} with seed {seed}, which loses {-gap:.2f} points" in prose()
    assert f"without any gains, the mean of the added domains is {inside.mean_without_gains:+.2f} points" in prose()
    means = [f"{mean:+.2f}" for mean in inside.mean_of_seeds.values()]
    assert f"The means of the three seeds are {means[0]}, {means[1]} and {means[2]} points" in prose()
    gaining = [name for name, gaps in inside.gaps.items() if statistics.fmean(gaps.values()) > 1]
    assert gaining == ["dtd", "flowers"]
    assert json.loads(FILE.read_text())["epochs"] == 25


def test_a_summary_counts_gains_and_losses() -> None:
    results: Results = {
        ("joint", "a", 0): 0.5,
        ("joint", "b", 0): 0.5,
        ("inside", "a", 0): 0.4,
        ("inside", "b", 0): 0.6,
    }
    summary = summary_of(results, "inside")
    assert str(summary) == (
        "+0.00 points on average, by seed +0.00, without gains -5.00; the worst is a with seed 0, -10.00"
    )
    assert summary_of(results, "grown") is None


def test_results_say_how_they_were_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["added_domains.py", "my data", "--seeds", "0"])
    file = tmp_path / "new" / "results.json"
    results: Results = {("joint", "a", 0): 0.5}
    write(file, results, "a machine", argparse.Namespace(backbone="wrn14_2", epochs=2))
    content = json.loads(file.read_text())
    assert content["command"] == "python -m benchmarks.added_domains 'my data' --seeds 0"
    assert content["prunus"] == prunus.__version__
    assert read(file) == results
