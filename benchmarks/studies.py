"""The two studies of the paper's claims: which domains, network and settings each trains the rows of the grid with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.study_grid import GRID, OURS, PAPER, SOURCE, Row

DOCS = Path(__file__).parents[1] / "docs"


@dataclass(frozen=True)
class Study:
    """What one study trains, and where its results are.

    Args:
        page: what `python -m benchmarks.study_page` writes.
        results: a folder with one JSON file per finished run.
        runs: the folder that runs are trained in.
        paper: training settings of the paper's methods and of other published ones.
        ours: training settings of `exact`.
        small: how many domains, those with the fewest images per class, count as small.
        domains: what its recipes name; None: what the folder DATA holds.
        source: the domain that the backbone was pretrained on; None: it is not among the domains.
        skipped: rows of the grid that make no sense here.
    """

    name: str
    page: Path
    results: Path
    runs: Path
    device: str
    backbone: str
    epochs: int
    paper: Mapping[str, float | str]
    ours: Mapping[str, float | str]
    small: int
    domains: tuple[str, ...] | None = None
    source: str | None = None
    skipped: frozenset[str] = frozenset()

    @property
    def rows(self) -> dict[str, Row]:
        """Return the rows of the grid that it trains."""
        return {name: row for name, row in GRID.items() if name not in self.skipped}


NINE = Study(
    name="nine",
    page=DOCS / "study.md",
    results=DOCS / "results" / "study",
    runs=Path("runs/study"),
    device="cuda",
    backbone="wrn28_4",
    epochs=20,
    paper=PAPER,
    ours=OURS,
    small=3,
    source=SOURCE,
)
# bfloat16 as on a GPU: processors with AMX are faster with it
ON_A_CPU: Mapping[str, float | str] = {"batch_size": 32, "precision": "bfloat16"}
DEMO = Study(
    name="demo",
    page=DOCS / "study-demo.md",
    results=DOCS / "results" / "study_demo",
    runs=Path("runs/study_demo"),
    device="cpu",
    backbone="wrn14_2",
    epochs=12,
    paper={**PAPER, **ON_A_CPU},
    ours={**OURS, **ON_A_CPU},
    small=2,  # the other three have the same number of images per class
    domains=("demo:characters", "demo:clothing", "demo:fashion", "demo:fruits", "demo:signs"),
    skipped=frozenset(name for name, row in GRID.items() if row.source_apart),  # there is no source to set apart
)
STUDIES: Mapping[str, Study] = {study.name: study for study in (NINE, DEMO)}


def planned(study: Study) -> Iterator[tuple[str, int]]:
    """Yield the name and seed of every run; the seeds of a row follow each other."""
    for name, row in study.rows.items():
        for seed in row.seeds:
            yield name, seed
