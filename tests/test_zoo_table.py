"""The table of networks on the page is the one that its command makes of the stored result."""

import json
from pathlib import Path

from benchmarks.zoo_table import BEGIN, END, ENOUGH, NETWORKS, is_equal, markdown

DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_shows_the_stored_rows_and_enough_of_them_go_all_the_way() -> None:
    rows = json.loads((DOCS / "results" / "zoo.json").read_text())["networks"]
    assert [row["network"] for row in rows] == list(NETWORKS)
    page = (DOCS / "zoo.md").read_text()
    table = page[page.index(BEGIN) + len(BEGIN) : page.index(END)].strip()
    assert table == markdown(rows)
    assert len(rows) >= 30
    assert sum(is_equal(row) for row in rows) >= ENOUGH
