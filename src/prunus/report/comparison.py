"""The table of a comparison, in the style of the paper: for a terminal, and as Markdown, LaTeX, CSV and JSON."""

import csv
import io
import json
from collections.abc import Callable

from rich.console import Group
from rich.table import Table
from rich.text import Text

from prunus.measure.comparison import Comparison, ComparisonRow

OVER = "*"
OVER_NOTE = "* ended over its budget: some domain uses more of the kernels than β"
SCORES = {"S": "s", "S_O": "s_o", "S_P": "s_p", "S_E": "s_e"}


def comparison_view(comparison: Comparison, width: int) -> Group:
    """Show a comparison in a terminal, with the accuracies of single domains if they fit."""
    cells = table_cells(comparison)
    notes = ["FLOP (MACs, mean over the domains) and Params are relative to the backbone. Accuracies are in %."]
    if sum(max(map(len, column)) + 3 for column in zip(*cells, strict=True)) >= width:
        hidden = range(3, 3 + len(comparison.domains))
        cells = [[cell for index, cell in enumerate(row) if index not in hidden] for row in cells]
        notes.append("Use a wider terminal, or the files, to see the accuracies of single domains.")
    if any(row[0].endswith(OVER) for row in cells):
        notes.append(OVER_NOTE)
    table = Table()
    for index, name in enumerate(cells[0]):
        table.add_column(name, justify="left" if index == 0 else "right", no_wrap=index > 0, overflow="fold")
    for row in cells[1:]:
        table.add_row(*row)
    return Group(table, *map(Text, notes))


def to_markdown(comparison: Comparison) -> str:
    """Write a comparison as a Markdown table."""
    header, *rows = table_cells(comparison)
    ruler = ["---", *("---:" for _ in header[1:])]
    lines = "".join(f"| {' | '.join(row)} |\n" for row in [header, ruler, *rows])
    over = any(row[0].endswith(OVER) for row in rows)
    return lines + (f"\n{OVER_NOTE}\n" if over else "")


def to_latex(comparison: Comparison) -> str:
    """Write a comparison as a LaTeX table with booktabs rules."""
    header, *rows = table_cells(comparison)
    scores = {"S_O": "S$_O$", "S_P": "S$_P$", "S_E": "S$_E$"}
    titles = [scores.get(name, _escape(name)) for name in header]
    body = "".join(f"{' & '.join(_escape(cell) for cell in row)} \\\\\n" for row in rows)
    columns = "l" + "r" * (len(header) - 1)
    return (
        f"% needs \\usepackage{{booktabs}}; {OVER_NOTE}\n"
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{' & '.join(titles)} \\\\\n\\midrule\n{body}"
        "\\bottomrule\n\\end{tabular}\n"
    )


def to_csv(comparison: Comparison) -> str:
    """Write a comparison as CSV with all digits; accuracies are shares."""
    first = ["name", "method", "options", "budget", "largest_usage", "union"]
    first += ["macs_ratio", "params_ratio", "stored_bytes"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*first, *comparison.domains, "mean_accuracy", *SCORES.values(), "seconds"])
    for row in comparison.rows:
        known = dict(row) | {"options": " ".join(f"{key}={value}" for key, value in row.options.items())}
        accuracies = [row.accuracies[name] for name in comparison.domains]
        scores = [getattr(row.scores, key, None) for key in SCORES.values()]
        writer.writerow([*(known[key] for key in first), *accuracies, row.mean_accuracy, *scores, row.seconds])
    return text.getvalue()


def to_json(comparison: Comparison) -> str:
    """Write a comparison as JSON."""
    return json.dumps(comparison.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[Comparison], str]] = {"csv": to_csv, "json": to_json, "md": to_markdown, "tex": to_latex}


def row_label(row: ComparisonRow) -> str:
    """Name a row by method, options and budget; a star marks an exceeded budget."""
    options = "".join(f" {key}={value}" for key, value in row.options.items())
    if row.budget is None:
        return f"{row.method}{options}"
    return f"{row.method}{options} β={row.budget:g}{OVER if row.largest_usage > row.budget else ''}"


def table_cells(comparison: Comparison) -> list[list[str]]:
    """Return the header and the rows of the table."""
    header = ["method", "FLOP", "Params", *comparison.domains, "mean", *SCORES]
    rows = []
    for row in comparison.rows:
        accuracies = [row.accuracies[name] for name in comparison.domains]
        shares = [f"{100 * share:.1f}" for share in [*accuracies, row.mean_accuracy]]
        scores = [_number(getattr(row.scores, key, None)) for key in SCORES.values()]
        rows.append([row_label(row), f"{row.macs_ratio:.3f}", f"{row.params_ratio:.2f}", *shares, *scores])
    return [header, *rows]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"


def _escape(text: str) -> str:
    for plain, escaped in (("\\", r"\textbackslash{}"), ("_", r"\_"), ("%", r"\%"), ("&", r"\&"), ("#", r"\#")):
        text = text.replace(plain, escaped)
    return text.replace("β", r"$\beta$")
