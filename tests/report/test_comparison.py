"""The table of a comparison: the same numbers in every format, and in a terminal of any width."""

import csv
import io

import pytest
from rich.console import Console

from prunus.measure.comparison import Comparison, Sweep, over_seeds
from prunus.report.comparison import FORMATS, comparison_view, to_csv, to_latex, to_markdown

WIDE, PIPED, NARROW = 140, 80, 60


@pytest.fixture
def comparison() -> Comparison:
    """A method over its budget, and one without a budget and scores."""
    row = {
        "name": "ba2-0.5",
        "method": "ba2",
        "options": {"sharing": "soft_overlap"},
        "budget": 0.5,
        "largest_usage": 0.51,
        "union": 0.75,
        "macs_ratio": 0.25,
        "params_ratio": 1.03,
        "stored_bytes": 12,
        "accuracies": {"a_b": 0.5, "s": 1.0},
        "mean_accuracy": 0.75,
        "scores": {"s": 1250.5, "s_o": 99.25, "s_p": None, "s_e": 2.0},
        "seconds": 1.5,
    }
    plain = row | {"name": "bn", "method": "bn", "options": {}, "budget": None, "scores": None}
    return Comparison.model_validate(
        {"domains": ["a_b", "s"], "backbone": "wrn14_2", "split": "test", "rows": [row, plain]}
    )


def test_markdown_has_a_row_per_method_and_a_note_on_exceeded_budgets(comparison: Comparison) -> None:
    lines = to_markdown(comparison).splitlines()
    assert (
        lines[2] == "| ba2 sharing=soft_overlap β=0.5* | 0.250 | 1.03 | 50.0 | 100.0 | 75.0 | 1250 | 99.25 | - | 2.00 |"
    )
    assert lines[3] == "| bn | 0.250 | 1.03 | 50.0 | 100.0 | 75.0 | - | - | - | - |"
    assert {line.count("|") for line in lines[:4]} == {11}
    assert lines[5].startswith("* ended over its budget")
    within = comparison.model_copy(update={"rows": comparison.rows[1:]})
    assert "over its budget" not in to_markdown(within)


def test_latex_escapes_names_and_has_as_many_columns_as_the_header(comparison: Comparison) -> None:
    latex = to_latex(comparison).splitlines()[1:]
    assert latex[0] == r"\begin{tabular}{lrrrrrrrrr}"
    assert latex[2].startswith(r"method & FLOP & Params & a\_b & s & mean & S & S$_O$")
    assert latex[4].startswith(r"ba2 sharing=soft\_overlap $\beta$=0.5* & 0.250 & 1.03 & 50.0")
    assert latex[4].count("&") == latex[2].count("&") == 9


def test_csv_keeps_all_digits_and_leaves_missing_numbers_empty(comparison: Comparison) -> None:
    first, second = csv.DictReader(io.StringIO(to_csv(comparison)))
    assert first["macs_ratio"] == "0.25"
    assert (first["a_b"], first["s_p"], first["options"]) == ("0.5", "", "sharing=soft_overlap")
    assert to_csv(comparison).splitlines()[1].split(",")[9:13] == ["0.5", "1.0", "0.75", "1250.5"]
    assert (second["budget"], second["s_e"]) == ("", "")


def test_json_is_read_back_as_the_same_comparison(comparison: Comparison) -> None:
    assert Comparison.model_validate_json(FORMATS["json"](comparison)) == comparison


@pytest.mark.parametrize(("width", "shows_domains"), [(WIDE, True), (NARROW, False)])
def test_a_narrow_terminal_shows_means_only(comparison: Comparison, width: int, shows_domains: bool) -> None:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(comparison_view(comparison, width))
    text = console.export_text()
    assert ("a_b" in text) == shows_domains
    assert ("wider terminal" in text) != shows_domains
    assert "75.0" in text
    assert "over its budget" in text


@pytest.fixture
def seeded(comparison: Comparison) -> Comparison:
    """A row over three seeds, one over two, and one with a single seed."""
    three, two = comparison.rows
    several = {
        seed: three.model_copy(update={"mean_accuracy": 0.7 + seed / 100, "stored_bytes": 10**6 * (1 + seed)})
        for seed in (0, 1, 2)
    }
    rows = (over_seeds(several), over_seeds({0: two, 2: two}), over_seeds({0: two}))
    return comparison.model_copy(update={"rows": rows})


def test_means_are_shown_with_their_spread_and_the_seeds_they_are_over(seeded: Comparison) -> None:
    lines = to_markdown(seeded).splitlines()
    assert lines[2] == (
        "| ba2 sharing=soft_overlap β=0.5* | 0.250 ± 0.000 | 1.03 ± 0.00 | 50.0 | 100.0 | 71.0 ± 1.0 "
        "| 1250 ± 0 | 99.25 ± 0.00 | - | 2.00 ± 0.00 |"
    )
    assert lines[3].startswith("| bn (n = 2) | 0.250 ± 0.000 |")
    assert lines[4].startswith("| bn (n = 1) | 0.250 | 1.03 | 50.0 | 100.0 | 75.0 | - |")
    assert lines[-1] == "mean ± standard deviation over the seeds 0, 1, 2 (n = 3)"
    assert "over the seeds 0, 1, 2" in to_latex(seeded).splitlines()[0]
    assert Comparison.model_validate_json(FORMATS["json"](seeded)) == seeded


def _shown(comparison: Comparison, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(comparison_view(comparison, width))
    return console.export_text().splitlines()


def _cells(lines: list[str]) -> list[list[str]]:
    rows = [line.replace("┃", "│").strip("│").split("│") for line in lines if line[0] in "┃│"]
    return [[cell.strip() for cell in row] for row in rows]


def test_in_80_columns_spreads_are_below_their_means_and_nothing_is_cut(seeded: Comparison) -> None:
    short = [row.model_copy(update={"options": {}}) for row in seeded.rows]
    lines = _shown(seeded.model_copy(update={"rows": tuple(short)}), PIPED)
    assert max(map(len, lines)) <= PIPED
    header, means, spreads, *_ = _cells(lines)
    assert header == ["method", "FLOP", "Params", "mean", "S", "S_O", "S_P", "S_E"]
    assert means == ["ba2 β=0.5*", "0.250", "1.03", "71.0", "1250", "99.25", "-", "2.00"]
    assert spreads == ["", "± 0.000", "± 0.00", "± 1.0", "± 0", "± 0.00", "", "± 0.00"]


@pytest.mark.parametrize(("width", "stacked"), [(PIPED, False), (NARROW, True)])
def test_scores_make_room_for_long_labels(seeded: Comparison, width: int, stacked: bool) -> None:
    lines = _shown(seeded, width)
    assert max(map(len, lines)) <= width
    header, first, *_ = _cells(lines)
    assert header == ["method", "FLOP", "Params", "mean"]
    assert first[1:] == (["0.250", "1.03", "71.0"] if stacked else ["0.250 ± 0.000", "1.03 ± 0.00", "71.0 ± 1.0"])
    notes = " ".join(line.strip() for line in lines)
    assert "to see the accuracies of single domains and the scores." in notes
    assert "on test images" in notes


def test_labels_longer_than_half_the_terminal_continue_below(seeded: Comparison) -> None:
    options = {f"training.key{number}": 0.5 for number in range(4)}
    rows = tuple(row.model_copy(update={"options": options}) for row in seeded.rows[:1])
    lines = _shown(seeded.model_copy(update={"rows": rows}), PIPED)
    assert max(map(len, lines)) <= PIPED
    label = " ".join(row[0] for row in _cells(lines)[1:])
    assert label.split() == ["ba2", *(f"{key}=0.5" for key in options), "β=0.5*"]


def test_csv_has_standard_deviations_where_there_are_several_seeds(seeded: Comparison, comparison: Comparison) -> None:
    first, second, third = csv.DictReader(io.StringIO(to_csv(seeded)))
    assert float(first["mean_accuracy_std"]) == pytest.approx(0.01)
    assert (first["seeds"], second["seeds"], third["seeds"]) == ("0 1 2", "0 2", "0")
    assert float(first["stored_bytes_std"]) == 1e6
    assert (second["mean_accuracy_std"], second["s_e_std"], third["mean_accuracy_std"]) == ("0.0", "", "")
    assert "_std" not in to_csv(comparison)


def test_a_sweep_shows_sizes_and_no_scores(seeded: Comparison) -> None:
    lines = to_markdown(Sweep.model_validate(dict(seeded))).splitlines()
    assert lines[0] == "| method | FLOP | Params | a_b | s | mean | MB |"
    assert lines[2].endswith("| 71.0 ± 1.0 | 2.00 ± 1.00 |")


def test_the_source_is_marked_in_the_header(comparison: Comparison) -> None:
    marked = comparison.model_copy(update={"source": "s"})
    assert to_markdown(marked).startswith("| method | FLOP | Params | a_b | s (source) | mean |")
    assert to_csv(marked) == to_csv(comparison)  # a column has the name of its domain
    assert "(source)" not in to_markdown(comparison)


def test_means_that_chance_could_make_the_best_one_are_marked(comparison: Comparison) -> None:
    best = comparison.rows[1].model_copy(
        update={"mean_accuracy": 0.8, "mean_accuracy_interval": (0.77, 0.83), "images": {"a_b": 400, "s": 600}}
    )
    near = best.model_copy(update={"mean_accuracy": 0.77, "mean_accuracy_interval": (0.74, 0.80)})
    worse = best.model_copy(update={"mean_accuracy": 0.7, "mean_accuracy_interval": (0.67, 0.73)})
    marked = comparison.model_copy(update={"rows": (worse, best, near)})
    lines = to_markdown(marked).splitlines()
    assert [line.split("|")[6].strip() for line in lines[2:5]] == ["70.0", "80.0", "77.0≈"]
    assert lines[-1].startswith("≈ not told apart from the best mean: the 95 % interval of the difference on 1,000 im")
    assert r"77.0$\approx$" in to_latex(marked)
    row = list(csv.DictReader(io.StringIO(to_csv(marked))))[2]
    assert (row["images"], row["mean_accuracy_low"], row["mean_accuracy_high"]) == ("1000", "0.74", "0.8")
    assert "≈" not in to_markdown(comparison)  # of an earlier version
