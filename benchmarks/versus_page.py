"""Write the stored results of `prunus versus` into the page about them.

    python -m benchmarks.versus_page

The raw results are docs/results/versus/NAME/versus.json. The tables and the plot beside them are made from them, and
the page docs/versus.md holds the tables between two comments that name the folder. What EXPECTED names and is not
stored, the page says at its top.
"""

from __future__ import annotations

import re
from pathlib import Path

from prunus.alternatives.table import ALTERNATIVES
from prunus.measure.alternatives.results import Versus
from prunus.report.alternatives.tables import to_markdown
from prunus.report.alternatives.writing import write_versus

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "versus.md"
RESULTS = DOCS / "results" / "versus"
EXPECTED = {
    "demo": "the demo domains on a CPU",
    "study": "the nine domains of [the study](study.md)",
}
EPOCHS = {"study": 20}  # of a full comparison
SEEDS = 3
ABSENT = re.compile(r"(<!-- absent -->\n).*?(<!-- end -->)", re.DOTALL)
PLACE = re.compile(r"(<!-- tables of results/versus/([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def read_results(name: str) -> Versus:
    return Versus.model_validate_json((RESULTS / name / "versus.json").read_bytes())


def absent() -> str:
    """Say at the top of the page which results are missing; nothing once all are stored."""
    lines = [f"- {problem}: {title}." for name, title in EXPECTED.items() for problem in problems(name)]
    return "\n".join(["**Some results are missing:**", "", *lines, ""]) if lines else ""


def problems(name: str) -> list[str]:
    """List what a stored comparison lacks."""
    if not (RESULTS / name / "versus.json").exists():
        return ["not measured yet"]
    results = read_results(name)
    found = []
    measured = {row.name for row in results.rows}
    if lacking := [row for row in ALTERNATIVES if row not in measured]:
        found.append(f"without {', '.join(lacking)}")
    training = results.settings["training"]
    assert isinstance(training, dict)
    epochs = int(str(training["epochs"]))
    if epochs < EPOCHS.get(name, 0):
        found.append(f"trained for {epochs} instead of {EPOCHS[name]} epochs")
    seeds = len({row.seed for row in results.rows})
    if seeds < SEEDS:
        found.append(f"trained with {seeds} instead of {SEEDS} seeds")
    return found


def tables(name: str) -> str:
    """Return the tables and the plot of a stored comparison."""
    if not (RESULTS / name / "versus.json").exists():
        return "Not measured yet.\n"
    plot = f"![Accuracy against bytes and milliseconds](results/versus/{name}/versus.svg)"
    return f"{to_markdown(read_results(name))}\n{plot}\n"


def with_tables(page: str) -> str:
    """Return the page with what is absent, and the tables of the raw results, in their places."""
    page = ABSENT.sub(lambda found: f"{found[1]}\n{absent()}\n{found[2]}", page)
    return PLACE.sub(lambda found: f"{found[1]}\n{tables(found[2])}\n{found[3]}", page)


def main() -> None:
    for folder in sorted(RESULTS.iterdir()):
        write_versus(folder, read_results(folder.name))
    PAGE.write_text(with_tables(PAGE.read_text()))


if __name__ == "__main__":
    main()
