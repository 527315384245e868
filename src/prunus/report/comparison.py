"""The paper-style table of a comparison, for a terminal, a page, a spreadsheet and a paper."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from rich.table import Table

Comparison = Mapping[str, Any]
SCORES = {"S": "s", "S_O": "s_o", "S_P": "s_p", "S_E": "s_e"}


def comparison_view(comparison: Comparison, width: int) -> Table:
    """Show a comparison in a terminal; the accuracies of single domains only where there is room for them."""
    cells = _cells(comparison)
    if sum(max(map(len, column)) + 3 for column in zip(*cells, strict=True)) >= width:
        hidden = range(3, 3 + len(comparison["domains"]))
        cells = [[cell for index, cell in enumerate(row) if index not in hidden] for row in cells]
    table = Table(
        caption="FLOP, Params: relative to the backbone, FLOP as the mean over the domains. Accuracies in %.",
        caption_justify="left",
    )
    for index, name in enumerate(cells[0]):
        table.add_column(name, justify="left" if index == 0 else "right", no_wrap=True)
    for row in cells[1:]:
        table.add_row(*row)
    return table


def to_markdown(comparison: Comparison) -> str:
    """Write a comparison as a Markdown table."""
    header, *rows = _cells(comparison)
    ruler = ["---", *("---:" for _ in header[1:])]
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, ruler, *rows])


def to_latex(comparison: Comparison) -> str:
    """Write a comparison as a LaTeX table in the style of booktabs."""
    header, *rows = _cells(comparison)
    scores = {"S_O": "S$_O$", "S_P": "S$_P$", "S_E": "S$_E$"}
    titles = [scores.get(name, _escape(name)) for name in header]
    body = "".join(f"{' & '.join(_escape(cell) for cell in row)} \\\\\n" for row in rows)
    columns = "l" + "r" * (len(header) - 1)
    return (
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{' & '.join(titles)} \\\\\n\\midrule\n{body}"
        "\\bottomrule\n\\end{tabular}\n"
    )


def to_csv(comparison: Comparison) -> str:
    """Write a comparison with all digits, accuracies as shares."""
    costs = ["macs_ratio", "params_ratio", "stored_bytes"]
    header = ["name", "method", "options", "budget", *costs, *comparison["domains"]]
    header += ["mean_accuracy", *SCORES.values(), "seconds"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in comparison["rows"]:
        known = row | row["accuracies"] | row["scores"] | {"options": json.dumps(row["options"], sort_keys=True)}
        writer.writerow(["" if known[key] is None else known[key] for key in header])
    return text.getvalue()


def to_json(comparison: Comparison) -> str:
    """Write everything."""
    return json.dumps(comparison, indent=2, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[Comparison], str]] = {"csv": to_csv, "json": to_json, "md": to_markdown, "tex": to_latex}


def row_label(row: Mapping[str, Any]) -> str:
    """Name a row as a table does: method, options, budget."""
    options = "".join(f" {key}={value}" for key, value in row["options"].items())
    return str(row["method"]) + options + ("" if row["budget"] is None else f" β={row['budget']:g}")


def _cells(comparison: Comparison) -> list[list[str]]:
    header = ["method", "FLOP", "Params", *comparison["domains"], "mean", *SCORES]
    rows = []
    for row in comparison["rows"]:
        accuracies = [row["accuracies"][name] for name in comparison["domains"]]
        shares = [f"{100 * share:.1f}" for share in [*accuracies, row["mean_accuracy"]]]
        scores = [_number(row["scores"][key]) for key in SCORES.values()]
        rows.append([row_label(row), f"{row['macs_ratio']:.3f}", f"{row['params_ratio']:.2f}", *shares, *scores])
    return [header, *rows]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"


def _escape(text: str) -> str:
    for plain, escaped in (("\\", r"\textbackslash{}"), ("_", r"\_"), ("%", r"\%"), ("&", r"\&"), ("#", r"\#")):
        text = text.replace(plain, escaped)
    return text.replace("β", r"$\beta$")
