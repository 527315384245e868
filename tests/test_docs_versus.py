"""The page of alternatives, and what other pages say of it, against the stored results."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, pvariance

import pytest

from benchmarks import versus_page
from prunus.alternatives.table import ALTERNATIVES
from prunus.measure.alternatives.results import VersusRow
from prunus.measure.alternatives.verdicts import judge, summarize
from prunus.report.alternatives.tables import to_markdown

ROOT = Path(__file__).parents[1]


def test_the_readme_shows_what_else_could_be_shipped() -> None:
    rows = json.loads((ROOT / "docs" / "results" / "versus" / "demo" / "versus.json").read_text())["rows"]
    text = " ".join((ROOT / "README.md").read_text().split())
    times = {}
    floats = mean(mean(row["accuracies"].values()) for row in rows if row["name"] == "ours")
    assert f"the same models in float32 ({100 * floats:.1f} %)" in text
    for name in ("ours_int8", "finetuned"):
        seeds = [row for row in rows if row["name"] == name]
        assert len(seeds) == 3
        assert f"{100 * mean(mean(row['accuracies'].values()) for row in seeds):.1f} %" in text
        assert f"{mean(row['total_bytes'] for row in seeds) / 1e6:.2f} MB" in text
        times[name] = mean(latency["median_ms"] for row in seeds for latency in row["latencies"].values())
    assert f"{times['finetuned'] / times['ours_int8']:.1f} times as long per image" in text


def test_the_page_of_alternatives_shows_the_tables_that_the_raw_results_make() -> None:
    page = versus_page.PAGE.read_text()
    names = [found[1] for found in versus_page.PLACE.findall(page)]
    stored = {folder.name for folder in versus_page.RESULTS.iterdir()}
    assert stored <= set(names) == {*versus_page.EXPECTED, "study_budgets"}
    assert versus_page.with_tables(page) == page
    for name in stored:
        results = versus_page.read_results(name)
        assert results.failed == {}
        if title := versus_page.EXPECTED.get(name):
            assert {row.name for row in results.rows} >= set(ALTERNATIVES)
            assert all(f"- {problem}: {title}." in page for problem in versus_page.problems(name))
        assert (versus_page.RESULTS / name / "versus.md").read_text() in page
        assert f"(results/versus/{name}/versus.svg)" in page


def test_what_is_said_of_the_demo_s_alternatives_was_measured() -> None:
    text = " ".join(versus_page.PAGE.read_text().split())
    part = text[text.index("- **`finetuned` is not beaten in accuracy.**") : text.index("Not measured here: ours with")]
    results = versus_page.read_results("demo")
    table = to_markdown(results)
    right, size, time = {}, {}, {}
    for name in results.titles:
        rows = [row for row in results.rows if row.name == name]
        right[name] = mean(100 * mean(row.accuracies.values()) for row in rows)
        size[name] = mean(row.total_bytes for row in rows)
        time[name] = mean(latency.median_ms for row in rows for latency in row.latencies.values())
    noise = {name: re.search(rf"\| {name} \| ours_int8: (\S+) points, (.*?) \(± (\S+)\)", table) for name in right}
    gains = {name: found for name, found in noise.items() if found}
    assert {name: found[2] for name, found in gains.items()} == {
        "finetuned": "within the noise",
        "probe": "better",
        "pruned": "better",
        "lora": "within the noise",
    }
    ahead = right["finetuned"] - right["ours_int8"]
    assert f"{ahead:.1f} points more accurate than ours in 8 bits, within the noise of {gains['finetuned'][3]}" in part
    assert 14.5 < size["finetuned"] / size["ours_int8"] < 15.5  # a fifteenth
    assert 0.38 < time["ours_int8"] / time["finetuned"] < 0.42  # two fifths
    pruned, lora = gains["pruned"], gains["lora"]
    assert f"ours in 8 bits is {pruned[1].lstrip('+')} points more accurate, smaller and faster" in part
    assert f"The noise is {pruned[3]} points" in part
    assert f"it is {lora[1].lstrip('+')} points more accurate, but the noise is {lora[3]}." in part
    assert size["ours"] < size["lora"]
    assert all(size["ours_int8"] < size[name] and time["ours"] < time[name] for name in ("probe", "pruned", "lora"))
    assert time["ours_int8"] < time["ours"]
    assert size["pruned"] < size["ours"] < size["probe"]
    assert f"ours takes {time['ours_int8'] / time['ours']:.2f} of the time of float32" in part


def test_what_is_said_of_the_alternatives_in_nine_domains_was_measured() -> None:
    text = " ".join(versus_page.PAGE.read_text().split())
    part = text[text.index("After five epochs of one seed") : text.index("### A larger budget")]
    rows = {row.name: row for row in versus_page.read_results("study").rows}
    percents = {name: 100 * row.mean_accuracy for name, row in rows.items()}
    assert f"than ours, by {percents['finetuned'] - percents['ours']:.1f} points" in part
    assert f"too**, by {percents['lora'] - percents['ours']:.1f} points" in part
    less = {name: f"{percents['ours_int8'] - percents[name]:.1f} points less accurate" for name in ("pruned", "probe")}
    assert f"It is {less['pruned']} than ours in 8 bits, and slower" in part
    assert f"**`probe`** is {less['probe']} than ours in 8 bits on average, larger and slower" in part
    assert f"8 bits cost ours {percents['ours'] - percents['ours_int8']:.1f} points" in part
    eight = rows["ours_int8"]
    for name in ("finetuned", "lora"):
        size, time = rows[name].total_bytes / eight.total_bytes, rows[name].milliseconds / eight.milliseconds
        assert f"{size:.0f} times as many bytes as ours in 8 bits, and {time:.1f} times as long" in part
    source = "tiny_imagenet"
    others = {
        name: 100 * mean(share for domain, share in rows[name].accuracies.items() if domain != source)
        for name in ("ours", "lora")
    }
    assert f"({100 * rows['lora'].accuracies[source]:.1f} %)" in part
    assert f"({100 * rows['ours'].accuracies[source]:.1f} %)" in part
    assert f"ours has {others['ours']:.1f} % and LoRA {others['lora']:.1f} % on average" in part
    assert rows["pruned"].total_bytes < eight.total_bytes
    assert rows["pruned"].milliseconds > eight.milliseconds
    probe = rows["probe"]
    assert probe.total_bytes > eight.total_bytes
    assert probe.milliseconds > rows["ours"].milliseconds
    best = rows["probe"].accuracies[source]
    assert f"twice our accuracy in `{source}`, {100 * best:.1f} %" in part
    assert best > 1.9 * rows["ours_int8"].accuracies[source]
    assert best == max(row.accuracies[source] for row in rows.values())


def test_what_is_said_of_a_larger_budget_in_nine_domains_was_measured() -> None:
    text = " ".join(versus_page.PAGE.read_text().split())
    part = text[text.index("### A larger budget") :]
    results = versus_page.read_results("study_budgets")
    rows = {row.name: row for row in results.rows}
    assert results.source == "tiny_imagenet"
    assert f'{results.source}.zip", source = true' in (ROOT / "recipes" / "versus_study.toml").read_text()
    percents = {name: 100 * row.mean_accuracy for name, row in rows.items()}
    behind = {name: f"{percents['finetuned'] - percents[name]:.1f} points" for name in ("ours_int8", "ours_int8-0.5")}
    quarter, half, fine, lora = (rows[name] for name in ("ours_int8", "ours_int8-0.5", "finetuned", "lora"))
    assert f"by {behind['ours_int8-0.5']} of ours in 8 bits with half" in part
    assert f"{half.total_bytes / 1e6:.1f} instead of {fine.total_bytes / 1e6:.1f} MB" in part
    assert f"and {half.milliseconds / fine.milliseconds:.2f} of their time" in part
    mixed = fine.accuracies | {results.source: rows["probe"].accuracies[results.source]}
    assert f"you would even have {100 * mean(mixed.values()):.1f} %" in part
    assert "LoRA is within the noise" in part
    assert [verdict.is_noise for verdict in judge(summarize(results), "total_bytes") if verdict.rival == "lora"] == [
        True
    ]
    assert f"LoRA takes {_times(lora, half)}" in part
    gained = percents["ours_int8-0.5"] - percents["ours_int8"]
    assert f"is worth {gained:.1f} points in 8 bits. It takes {_times(half, quarter)}" in part
    most = rows["ours_int8-0.75"]
    assert percents[most.name] < percents[half.name]
    assert f"nothing more: {percents[most.name]:.1f} %, in {most.total_bytes / 1e6:.1f} MB" in part
    for page in ("README.md", "docs/exact.md"):
        written = " ".join((ROOT / page).read_text().split())
        assert all(points in written[written.index("With a ninth domain") :] for points in behind.values())


def test_what_is_said_of_the_backbone_as_a_teacher_was_measured() -> None:
    text = " ".join(versus_page.PAGE.read_text().split())
    part = text[text.index("**The backbone as a teacher**") :]
    before, after = (versus_page.read_results(name) for name in ("study", "study_budgets"))
    assert before.source is None
    assert before.settings == after.settings
    other, ours = (next(row for row in results.rows if row.name == "ours") for results in (before, after))
    means = [100 * row.mean_accuracy for row in (ours, other)]
    assert f"({means[0]:.1f} instead of {means[1]:.1f} % in float32)" in part
    source = str(after.source)
    both = [100 * row.accuracies[source] for row in (ours, other)]
    assert f"In `{source}` it has {both[0]:.1f} instead of {both[1]:.1f} %" in part
    assert f"which is {_gain(ours, other, [source])} points more" in part
    others = [name for name in after.images if name != source]
    assert f"The other domains have {_gain(other, ours, others)} points less" in part


def _times(row: VersusRow, other: VersusRow) -> str:
    size, time = row.total_bytes / other.total_bytes, row.milliseconds / other.milliseconds
    return f"{size:.1f} times as many bytes and {time:.1f} times as long"


def _gain(row: VersusRow, other: VersusRow, domains: Sequence[str]) -> str:
    """Write how much more accurate a row is in some domains, with the 95 % interval by the number of images."""
    means, drawn = [], 0.0
    for domain in domains:
        differences = [int(a) - int(b) for a, b in zip(row.correct[domain], other.correct[domain], strict=True)]
        means.append(mean(differences))
        drawn += pvariance(differences) / (len(differences) - 1) / len(domains) ** 2
    return f"{100 * mean(means):.1f} ± {196 * drawn**0.5:.1f}"


def test_the_page_of_alternatives_says_what_is_absent_until_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = versus_page.read_results("demo")
    one = tuple(row for row in results.rows if row.seed == 0 and row.name != "lora")
    monkeypatch.setattr(versus_page, "RESULTS", tmp_path)
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "versus.json").write_text(results.model_copy(update={"rows": one}).model_dump_json())
    page = versus_page.with_tables(versus_page.PAGE.read_text())
    assert (
        "- without lora: the demo domains on a CPU.\n- trained with 1 instead of 3 seeds: the demo domains on a CPU.\n"
        in page
    )
    assert "- not measured yet: the nine domains" in page
    assert "\nNot measured yet.\n" in page
    for name in (*versus_page.EXPECTED, "study_budgets"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "versus.json").write_text(results.model_dump_json())
    page = versus_page.with_tables(page)
    assert "- trained for 12 instead of 20 epochs: the nine domains" in page  # those of the demo
    monkeypatch.setattr(versus_page, "EPOCHS", {})
    complete = versus_page.with_tables(page)
    assert "results are missing" not in complete
    assert "Not measured yet" not in complete
    assert "(results/versus/study/versus.svg)" in complete
