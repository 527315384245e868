"""Write the verdicts and tables of the study into docs/study.md, from the results of `python -m benchmarks.study`.

python -m benchmarks.study_page
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.study_checks import own_recipe, refuse_stale, stale
from benchmarks.study_claims import CLAIMS
from benchmarks.study_grid import GRID, SOURCE, planned
from benchmarks.study_judging import Claim, row
from benchmarks.study_others import others
from benchmarks.study_results import RESULTS, Runs, StudyRun, read_runs
from benchmarks.study_scores import scores
from prunus.measure.score import Scores

PAGE = Path(__file__).parents[1] / "docs" / "study.md"
PLACE = re.compile(r"(<!-- (absent|verdicts|findings|others|rows|domains|missing) -->\n).*?(<!-- end -->)", re.DOTALL)
NOTHING = "Nothing has been measured yet.\n"


def absent(runs: Runs) -> str:
    """Say at the top of the page which evidence is missing; nothing once all runs are measured."""
    total = len(list(planned()))
    if len(runs) == total:
        return ""
    waiting = [f"[{number}](#claim-{number})" for number, claim in enumerate(CLAIMS.values(), 1) if claim.is_open(runs)]
    text = f"**Part of the evidence is absent: {len(runs)} of {total} runs are measured.**"
    if waiting:
        text += f" Of claims {', '.join(waiting)} a verdict is still open."
    text += " A run that refutes a claim decides it although others are missing."
    if not scores(runs):
        text += " S, S_O, S_P and S_E are missing: they need runs of `finetune` and `feature`."
    return text + "\n"


def verdicts(runs: Runs) -> str:
    """Return the table of claims with their verdicts."""
    lines = [
        f"| [{number}](#claim-{number}) | {claim.text} | {claim.verdict(runs)} |"
        for number, claim in enumerate(CLAIMS.values(), 1)
    ]
    return _table("claim|what the paper says|here", lines, left=3)


def findings(runs: Runs) -> str:
    """Return a section per claim."""
    return "\n".join(_section(number, claim, runs) for number, claim in enumerate(CLAIMS.values(), 1))


def _section(number: int, claim: Claim, runs: Runs) -> str:
    missing = claim.missing(runs)
    needed = sum(len(GRID[name].seeds) for name in claim.needs)
    figures = claim.figures(runs)
    if missing:
        is_empty = len(missing) == needed
        state = "Nothing has been measured yet" if is_empty else f"{needed - len(missing)} of {needed} runs"
        figures += [f"{state}; missing: {_named(missing)}"]
    lines = [f"- {figure}" for figure in figures]
    head = f"### Claim {number}\n\n**{claim.text}** Here: **{claim.verdict(runs)}**.\n"
    return "\n".join([head, f"- Paper: {claim.paper}.", f"- Holds if: {claim.rule}.", *lines, ""])


def _named(missing: Sequence[tuple[str, int]]) -> str:
    """Name rows, with their seeds where others are measured."""
    seeds: dict[str, list[int]] = {}
    for name, seed in missing:
        seeds.setdefault(name, []).append(seed)
    return ", ".join(
        f"`{name}`" + ("" if len(found) == len(GRID[name].seeds) else f" (seed {', '.join(map(str, found))})")
        for name, found in seeds.items()
    )


def rows(runs: Runs) -> str:
    """Return the table of all rows that have a run."""
    if not runs:
        return NOTHING
    scored = [scores(runs, without) for without in (None, SOURCE)]
    lines = [
        _line(name, row(runs, name), *([found[key] for key in sorted(found) if key[0] == name] for found in scored))
        for name in GRID
        if row(runs, name)
    ]
    columns = "row|split|seeds|accuracy (%)|union|sparsity|MACs|Params|MB|S|S_O|S_P|S_E|S*|S_E*|seconds"
    return _table(columns, lines, left=2)


def _line(name: str, found: Sequence[StudyRun], scored: Sequence[Scores], elsewhere: Sequence[Scores]) -> str:
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
        _score(score.s for score in elsewhere),
        _score((score.s_e for score in elsewhere), 1),
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
    lacking = [run for run in planned() if run not in runs]
    total = len(list(planned()))
    text = f"{total - len(lacking)} of {total} runs are measured."
    if runs:
        machines = sorted({run.machine for run in runs.values()})
        versions = sorted({f"{key} {value}" for run in runs.values() for key, value in run.versions.items()})
        text += f" Machine: {'; '.join(machines)}. Versions: {', '.join(versions)}."
    return text + (f" Missing: {_named(lacking)}.\n" if lacking else "\n")


def _table(columns: str, lines: Sequence[str], left: int = 1) -> str:
    names = columns.split("|")
    marks = ["---" if number < left else "---:" for number in range(len(names))]
    return "\n".join([f"| {' | '.join(names)} |", f"| {' | '.join(marks)} |", *lines]) + "\n"


PARTS = {
    "absent": absent,
    "verdicts": verdicts,
    "findings": findings,
    "others": others,
    "rows": rows,
    "domains": domains,
    "missing": missing,
}


def with_results(page: str, runs: Runs) -> str:
    """Return the page with what the raw results say in its places."""
    return PLACE.sub(lambda found: f"{found[1]}\n{PARTS[found[2]](runs)}\n{found[3]}", page)


def main() -> None:
    """Write the page anew."""
    runs = read_runs()
    refuse_stale(stale(runs, {key: own_recipe(run) for key, run in runs.items()}), RESULTS)
    PAGE.write_text(with_results(PAGE.read_text(), runs))


if __name__ == "__main__":
    main()
