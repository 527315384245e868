"""Write the verdicts and tables of the study into docs/study.md, from the results of `python -m benchmarks.study`.

python -m benchmarks.study_page
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.study_claims import CLAIMS, Claim, row, scores
from benchmarks.study_grid import GRID, planned
from benchmarks.study_results import Runs, StudyRun, file_of, read_runs
from prunus.measure.score import Scores

PAGE = Path(__file__).parents[1] / "docs" / "study.md"
PLACE = re.compile(r"(<!-- (verdicts|findings|rows|domains|missing) -->\n).*?(<!-- end -->)", re.DOTALL)
NOTHING = "Nothing has been measured yet.\n"


def verdicts(runs: Runs) -> str:
    """Return the table of claims with their verdicts."""
    lines = [
        f"| [{number}](#claim-{number}) | {claim.text} | {claim.find(runs).verdict} |"
        for number, claim in enumerate(CLAIMS.values(), 1)
    ]
    return _table("claim|what the paper says|here", lines, left=3)


def findings(runs: Runs) -> str:
    """Return a section per claim."""
    return "\n".join(_section(number, claim, runs) for number, claim in enumerate(CLAIMS.values(), 1))


def _section(number: int, claim: Claim, runs: Runs) -> str:
    found = claim.find(runs)
    missing = claim.missing(runs)
    needed = sum(len(GRID[name].seeds) for name in claim.needs)
    figures = list(found.figures)
    if missing:
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(name for name, _ in missing))
        state = (
            "Nothing has been measured yet" if len(missing) == needed else f"{needed - len(missing)} of {needed} runs"
        )
        figures = [f"{state}; missing: {names}"]
    lines = [f"- {figure}" for figure in figures]
    head = f"### Claim {number}\n\n**{claim.text}** Here: **{found.verdict}**.\n"
    return "\n".join([head, f"- Paper: {claim.paper}.", f"- Holds if: {claim.rule}.", *lines, ""])


def rows(runs: Runs) -> str:
    """Return the table of all rows that have a run."""
    if not runs:
        return NOTHING
    scored = scores(runs)
    lines = [
        _line(name, row(runs, name), [scored[key] for key in sorted(scored) if key[0] == name])
        for name in GRID
        if row(runs, name)
    ]
    columns = "row|split|seeds|accuracy (%)|union|sparsity|MACs|Params|MB|S|S_O|S_P|S_E|seconds"
    return _table(columns, lines, left=2)


def _line(name: str, found: Sequence[StudyRun], scored: Sequence[Scores]) -> str:
    accuracy = [100 * run.mean_accuracy for run in found]
    cells = [
        f"`{name}`",
        found[0].split,
        str(len(found)),
        f"{statistics.fmean(accuracy):.1f}" + (f" ± {statistics.stdev(accuracy):.1f}" if len(found) > 1 else ""),
        *(
            f"{statistics.fmean(values):.3f}"
            for values in zip(
                *((run.union, run.sparsity, run.macs_ratio, run.params_ratio) for run in found), strict=True
            )
        ),
        f"{statistics.fmean(run.stored_bytes for run in found) / 1e6:.2f}",
        *(_score(getattr(score, key) for score in scored) for key in ("s", "s_o", "s_p")),
        _score((score.s_e for score in scored), 1),
        f"{statistics.fmean(run.seconds for run in found):.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _score(values: Iterable[float | None], digits: int = 0) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.fmean(known):.{digits}f}" if known else ""


def domains(runs: Runs) -> str:
    """Return the accuracy of every domain for the rows that were measured on test images."""
    tested = [name for name in GRID if any(run.split == "test" for run in row(runs, name))]
    if not tested:
        return NOTHING
    names = max((run.accuracies for run in runs.values()), key=len)
    lines = []
    for name in tested:
        found = row(runs, name)
        cells = [
            f"{100 * statistics.fmean(run.accuracies[domain] for run in found):.1f}"
            if domain in found[0].accuracies
            else ""
            for domain in names
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return _table("|".join(["row", *names]), lines)


def missing(runs: Runs) -> str:
    """Return which runs are missing, and what made the others."""
    absent = [f"`{file_of(*run)}`" for run in planned() if run not in runs]
    total = len(list(planned()))
    text = f"{total - len(absent)} of {total} runs are measured."
    if runs:
        machines = sorted({run.machine for run in runs.values()})
        versions = sorted({f"{key} {value}" for run in runs.values() for key, value in run.versions.items()})
        text += f" Machine: {'; '.join(machines)}. Versions: {', '.join(versions)}."
    return text + (f" Missing: {', '.join(absent)}.\n" if absent else "\n")


def _table(columns: str, lines: Sequence[str], left: int = 1) -> str:
    names = columns.split("|")
    marks = ["---" if number < left else "---:" for number in range(len(names))]
    return "\n".join([f"| {' | '.join(names)} |", f"| {' | '.join(marks)} |", *lines]) + "\n"


PARTS = {"verdicts": verdicts, "findings": findings, "rows": rows, "domains": domains, "missing": missing}


def with_results(page: str, runs: Runs) -> str:
    """Return the page with what the raw results say in its places."""
    return PLACE.sub(lambda found: f"{found[1]}\n{PARTS[found[2]](runs)}\n{found[3]}", page)


def main() -> None:
    """Write the page anew."""
    PAGE.write_text(with_results(PAGE.read_text(), read_runs()))


if __name__ == "__main__":
    main()
