"""Write the results of `prunus versus` as files."""

import json
from pathlib import Path

from prunus.files import write_atomically
from prunus.measure.alternatives.results import Versus
from prunus.report.alternatives.figure import versus_figure
from prunus.report.alternatives.tables import to_markdown
from prunus.report.plots import save_figure

STEM = "versus"


def write_versus(folder: Path, versus: Versus) -> None:
    """Write the raw results, the tables made from them and the plot."""
    text = json.dumps(versus.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"
    write_atomically(folder / f"{STEM}.json", text.encode())
    write_atomically(folder / f"{STEM}.md", to_markdown(versus).encode())
    save_figure(versus_figure(versus), folder / f"{STEM}.svg")
