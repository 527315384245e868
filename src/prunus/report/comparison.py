"""The table of a comparison, in the style of the paper: for a terminal, and as Markdown, LaTeX, CSV and JSON."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group

from prunus.measure.comparison import Comparison, ComparisonRow, Sweep, near_best
from prunus.names import marked, shown
from prunus.terminal import PlainTable, plain_text

OVER = "*"
OVER_NOTE = (
    "* ended over its budget: some domain uses more of the kernels than β or, with the union loss, all together do"
)
NEAR = "≈"
PLUS_MINUS = " ± "  # between a mean and its spread
FIRST_DOMAIN = 3  # column
LEAST_LABEL = 16  # width of the first column in a terminal
SCORES = {"S": "s", "S_O": "s_o", "S_P": "s_p", "S_E": "s_e"}
SPREAD = ("union", "macs_ratio", "params_ratio", "stored_bytes", "mean_accuracy")  # numbers with a standard deviation


def comparison_view(comparison: Comparison, width: int) -> Group:
    """Show a comparison in a terminal, with as much of it as fits."""
    everything = table_cells(comparison)
    layouts = list(_layouts(comparison))
    layout = next((each for each in layouts if _width(each.apply(everything), width) <= width), layouts[-1])
    header, *rows = layout.apply(everything)
    table = PlainTable()
    table.add_column(header[0], min_width=LEAST_LABEL, overflow="fold")
    for name in header[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(plain_text(*cell.split("\n")) for cell in row))  # a spread may be below its mean
    costs = "FLOP (MACs, mean over the domains) and Params are relative to the backbone."
    notes = [f"{costs} Accuracies on {comparison.split} images are in %."]
    if layout.missing:
        notes.append(f"Use a wider terminal, or the files, to see {' and '.join(layout.missing)}.")
    return Group(table, *map(plain_text, [*notes, *table_notes(comparison)]))


@dataclass(frozen=True)
class _Layout:
    """What a terminal shows of a table.

    Args:
        hidden: columns.
        missing: their names for a reader.
        is_stacked: whether a spread is below its mean.
    """

    hidden: frozenset[int] = frozenset()
    missing: tuple[str, ...] = ()
    is_stacked: bool = False

    def apply(self, cells: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the cells that are shown."""
        kept = [[cell for index, cell in enumerate(row) if index not in self.hidden] for row in cells]
        return [[cell.replace(PLUS_MINUS, "\n± ") for cell in row] for row in kept] if self.is_stacked else kept


def _layouts(comparison: Comparison) -> Iterator[_Layout]:
    """List layouts, each narrower than the one before."""
    yield _Layout()
    domains = frozenset(range(FIRST_DOMAIN, FIRST_DOMAIN + len(comparison.domains)))
    accuracies = "the accuracies of single domains"
    yield _Layout(domains, (accuracies,))
    yield _Layout(domains, (accuracies,), is_stacked=True)
    if not isinstance(comparison, Sweep):
        after_mean = FIRST_DOMAIN + len(domains) + 1
        hidden = domains | frozenset(range(after_mean, after_mean + len(SCORES)))
        missing = (accuracies, "the scores")
        yield _Layout(hidden, missing)
        yield _Layout(hidden, missing, is_stacked=True)


def _width(cells: Sequence[Sequence[str]], width: int) -> int:
    """Return the width of a table with borders; a label takes at most half the terminal, and more lines if needed."""
    labels, *columns = (
        max(cell_len(line) for cell in column for line in cell.splitlines()) for column in zip(*cells, strict=True)
    )
    return 1 + sum(content + 3 for content in (max(LEAST_LABEL, min(labels, width // 2)), *columns))


def to_markdown(comparison: Comparison) -> str:
    """Write a comparison as a Markdown table."""
    header, *rows = table_cells(comparison)
    ruler = ["---", *("---:" for _ in header[1:])]
    lines = "".join(f"| {' | '.join(row)} |\n" for row in [header, ruler, *rows])
    return lines + "".join(f"\n{note}\n" for note in table_notes(comparison))


def to_latex(comparison: Comparison) -> str:
    """Write a comparison as a LaTeX table with booktabs rules."""
    header, *rows = table_cells(comparison)
    scores = {"S_O": "S$_O$", "S_P": "S$_P$", "S_E": "S$_E$"}
    titles = [scores.get(name, _escape(name)) for name in header]
    body = "".join(f"{' & '.join(_escape(cell) for cell in row)} \\\\\n" for row in rows)
    columns = "l" + "r" * (len(header) - 1)
    notes = "; ".join(dict.fromkeys([OVER_NOTE, *table_notes(comparison)]))
    return (
        f"% needs \\usepackage{{booktabs}}; {notes}\n"
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{' & '.join(titles)} \\\\\n\\midrule\n{body}"
        "\\bottomrule\n\\end{tabular}\n"
    )


def to_csv(comparison: Comparison) -> str:
    """Write a comparison as CSV with all digits; accuracies are shares, and `_std` marks standard deviations."""
    first = ["name", "method", "options", "budget", "largest_usage", "union"]
    first += ["macs_ratio", "params_ratio", "stored_bytes"]
    has_spread = any(row.spread for row in comparison.rows)
    deviations = [f"{name}_std" for name in (*SPREAD, *comparison.domains, *SCORES.values())]
    added = ["seeds", *deviations] if has_spread else []
    has_intervals = any(row.mean_accuracy_interval for row in comparison.rows)
    added += ["images", "mean_accuracy_low", "mean_accuracy_high"] if has_intervals else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*first, *comparison.domains, "mean_accuracy", *SCORES.values(), "seconds", *added])
    for row in comparison.rows:
        known = dict(row) | {"options": " ".join(f"{key}={value}" for key, value in row.options.items())}
        accuracies = [row.accuracies[name] for name in comparison.domains]
        scores = [getattr(row.scores, key, None) for key in SCORES.values()]
        cells = [*(known[key] for key in first), *accuracies, row.mean_accuracy, *scores, row.seconds]
        if has_spread:
            cells += [" ".join(map(str, row.seeds)), *_deviations(row, comparison.domains)]
        if has_intervals:
            cells += [sum(row.images.values()), *(row.mean_accuracy_interval or (None, None))]
        writer.writerow(cells)
    return text.getvalue()


def to_json(comparison: Comparison) -> str:
    """Write a comparison as JSON."""
    return json.dumps(comparison.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[Comparison], str]] = {"csv": to_csv, "json": to_json, "md": to_markdown, "tex": to_latex}


def row_label(row: ComparisonRow) -> str:
    """Name a row by method, options and budget; a star marks an exceeded budget."""
    options = "".join(f" {key}={value}" for key, value in row.options.items())
    share = "" if row.budget is None else f" β={row.budget:g}"
    return shown(f"{row.method}{options}{share}{OVER if row.is_over_budget else ''}")


def table_cells(comparison: Comparison) -> list[list[str]]:
    """Return the header and the rows of the table; means over seeds are followed by their spread."""
    most = max((len(row.seeds) for row in comparison.rows), default=0)
    scores = {} if isinstance(comparison, Sweep) else SCORES
    size = ["MB"] if isinstance(comparison, Sweep) else []
    rows = [["method", "FLOP", "Params", *_titles(comparison), "mean", *size, *scores]]
    near = near_best(comparison.rows)
    for index, row in enumerate(comparison.rows):
        label = row_label(row) + (f" (n = {len(row.seeds)})" if len(row.seeds) < most else "")
        costs = [_cell(row, "macs_ratio", "{:.3f}"), _cell(row, "params_ratio", "{:.2f}")]
        accuracies = [f"{100 * row.accuracies[name]:.1f}" for name in comparison.domains]
        megabytes = [_cell(row, "stored_bytes", "{:.2f}", 1e-6) for _ in size]
        scored = [_score_cell(row, key) for key in scores.values()]
        mean = _cell(row, "mean_accuracy", "{:.1f}", 100) + (NEAR if index in near else "")
        rows.append([label, *costs, *accuracies, mean, *megabytes, *scored])
    return rows


def table_notes(comparison: Comparison) -> list[str]:
    """Explain the signs that occur in a table, and name the domains that are not in it."""
    notes = [OVER_NOTE] if any(row.is_over_budget for row in comparison.rows) else []
    seeds = max((row.seeds for row in comparison.rows if row.spread), key=len, default=())
    if seeds:
        listed = ", ".join(map(str, seeds))
        notes.append(f"mean ± standard deviation over the seeds {listed} (n = {len(seeds)})")
    if near_best(comparison.rows):
        notes.append(near_note(comparison))
    notes += [f"skipped: {shown(reason)}" for reason in comparison.unmeasured.values()]
    return notes


def near_note(comparison: Comparison) -> str:
    """Explain the sign of rows that may be as good as the best one."""
    images = sum(comparison.rows[0].images.values())
    return (
        f"{NEAR} not told apart from the best mean: the 95 % interval of the difference on {images:,} images contains 0"
    )


def _titles(comparison: Comparison) -> list[str]:
    return [marked(shown(name), comparison.source) for name in comparison.domains]


def _cell(row: ComparisonRow, key: str, form: str, factor: float = 1.0) -> str:
    mean = form.format(factor * getattr(row, key))
    return mean if row.spread is None else f"{mean}{PLUS_MINUS}{form.format(factor * getattr(row.spread, key))}"


def _score_cell(row: ComparisonRow, key: str) -> str:
    """Show a score with as many digits as its mean, which decides those of its spread too."""
    value = getattr(row.scores, key, None)
    if value is None:
        return "-"
    form = "{:.2f}" if abs(value) < 100 else "{:.0f}"
    deviation = getattr(row.spread and row.spread.scores, key, None)
    return form.format(value) if deviation is None else f"{form.format(value)}{PLUS_MINUS}{form.format(deviation)}"


def _deviations(row: ComparisonRow, domains: Sequence[str]) -> list[float | None]:
    """Return the standard deviations in the order of the CSV file; all None with one seed."""
    if row.spread is None:
        return [None] * (len(SPREAD) + len(domains) + len(SCORES))
    numbers = [getattr(row.spread, key) for key in SPREAD]
    accuracies = [row.spread.accuracies[name] for name in domains]
    return [*numbers, *accuracies, *(getattr(row.spread.scores, key, None) for key in SCORES.values())]


def _escape(text: str) -> str:
    for plain, escaped in (("\\", r"\textbackslash{}"), ("_", r"\_"), ("%", r"\%"), ("&", r"\&"), ("#", r"\#")):
        text = text.replace(plain, escaped)
    return text.replace("β", r"$\beta$").replace(NEAR, r"$\approx$")
