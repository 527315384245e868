"""Write the stored results of `prunus versus` into the page about them.

    python -m benchmarks.versus_page

The raw results are docs/results/versus/NAME/versus.json. The tables and the plot beside them are made from them, and
the page docs/versus.md holds the tables between two comments that name the folder.
"""

from __future__ import annotations

import re
from pathlib import Path

from prunus.measure.alternatives.results import Versus
from prunus.report.alternatives.tables import to_markdown
from prunus.report.alternatives.writing import write_versus

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "versus.md"
RESULTS = DOCS / "results" / "versus"
PLACE = re.compile(r"(<!-- tables of results/versus/([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def read_results(name: str) -> Versus:
    return Versus.model_validate_json((RESULTS / name / "versus.json").read_bytes())


def with_tables(page: str) -> str:
    """Return the page with the tables of the raw results in their places."""
    return PLACE.sub(lambda found: f"{found[1]}\n{to_markdown(read_results(found[2]))}\n{found[3]}", page)


def main() -> None:
    for folder in sorted(RESULTS.iterdir()):
        write_versus(folder, read_results(folder.name))
    PAGE.write_text(with_tables(PAGE.read_text()))


if __name__ == "__main__":
    main()
