"""Write the verdicts and tables of the studies into their pages, from the results of `python -m benchmarks.study`.

python -m benchmarks.study_page [--study NAME]
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from benchmarks.studies import STUDIES, Study, planned
from benchmarks.study_checks import own_recipe, refuse_stale, stale
from benchmarks.study_claims import claims_of
from benchmarks.study_grid import GRID
from benchmarks.study_judging import Claim, row
from benchmarks.study_others import others
from benchmarks.study_results import Runs, StudyRun, read_runs
from benchmarks.study_scores import scores
from benchmarks.study_settings import settings
from prunus.measure.score import Scores

NOTHING = "Nothing has been measured yet.\n"
SCORES = {"S": ("s", 0), "S_O": ("s_o", 0), "S_P": ("s_p", 0), "S_E": ("s_e", 1)}  # column -> score, digits
WITHOUT_SOURCE = {"S*": ("s", 0), "S_E*": ("s_e", 1)}


def absent(runs: Runs, study: Study) -> str:
    """Say at the top of the page which evidence is missing; nothing once all runs are measured."""
    total = len(list(planned(study)))
    if len(runs) == total:
        return ""
    claims = enumerate(claims_of(study).values(), 1)
    waiting = [f"[{number}](#claim-{number})" for number, claim in claims if claim.is_open(runs)]
    text = f"**Some results are missing: {len(runs)} of {total} runs are measured.**"
    if waiting:
        text += f" Claims {', '.join(waiting)} still wait for some of them."
    text += " A claim that one run refutes is decided although others are missing."
    if not scores(runs):
        text += " S, S_O, S_P and S_E are missing: they need runs of `finetune` and `feature`."
    return text + "\n"


def verdicts(runs: Runs, study: Study) -> str:
    """Return the table of claims with their verdicts."""
    lines = [
        f"| [{number}](#claim-{number}) | {claim.text} | {claim.verdict(runs)} |"
        for number, claim in enumerate(claims_of(study).values(), 1)
    ]
    return _table("claim|what the paper says|here", lines, left=3)


def findings(runs: Runs, study: Study) -> str:
    """Return a section per claim."""
    return "\n".join(_section(number, claim, runs) for number, claim in enumerate(claims_of(study).values(), 1))


def _section(number: int, claim: Claim, runs: Runs) -> str:
    missing = claim.missing(runs)
    needed = sum(len(GRID[name].seeds) for name in claim.needs)
    figures = claim.figures(runs)
    if missing:
        is_empty = len(missing) == needed
        state = "Nothing has been measured yet" if is_empty else f"{needed - len(missing)} of {needed} runs"
        figures += [f"{state}; missing: {_named(missing)}"]
    lines = [f"- {figure}" for figure in figures]
    if claim.note:
        lines.append(f"- Note: {claim.note}.")
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


def rows(runs: Runs, study: Study) -> str:
    """Return the table of all rows that have a run; the scores without the source only where there is one."""
    if not runs:
        return NOTHING
    scored = [(scores(runs), SCORES)]
    if study.source is not None:
        scored.append((scores(runs, study.source), WITHOUT_SOURCE))
    lines = [
        _line(name, row(runs, name), [cell for found, columns in scored for cell in _score_cells(found, name, columns)])
        for name in study.rows
        if row(runs, name)
    ]
    titles = "|".join(title for _, columns in scored for title in columns)
    return _table(
        f"row|split|seeds|accuracy (%)|union|sparsity|MACs|Params|most used|kept|MB|{titles}|seconds", lines, left=2
    )


def _line(name: str, found: Sequence[StudyRun], scored: Sequence[str]) -> str:
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
        f"{max(max(run.usage.values()) for run in found):.3f}",
        _kept(found),
        f"{statistics.fmean(run.stored_bytes for run in found) / 1e6:.2f}",
        *scored,
        f"{statistics.fmean(run.seconds for run in found):.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _score_cells(
    scored: Mapping[tuple[str, int], Scores], name: str, columns: Mapping[str, tuple[str, int]]
) -> list[str]:
    """Write the scores of a row, each a mean over the seeds."""
    of_row = [score for (found, _), score in scored.items() if found == name]
    return [_score([getattr(score, key) for score in of_row], digits) for key, digits in columns.values()]


def _kept(found: Sequence[StudyRun]) -> str:
    """Say whether every seed kept its budget; nothing if there is none."""
    known = [run.budget_kept for run in found if run.budget_kept is not None]
    return ("yes" if all(known) else "no") if known else ""


def _score(values: Iterable[float | None], digits: int = 0) -> str:
    known = [value for value in values if value is not None]
    spread = f" ± {statistics.stdev(known):.{digits}f}" if len(known) > 1 else ""
    return f"{statistics.fmean(known):.{digits}f}{spread}" if known else ""


def domains(runs: Runs, study: Study) -> str:
    """Return the accuracy of every domain for the rows that were measured on test images."""
    tested = [name for name in study.rows if any(run.split == "test" for run in row(runs, name))]
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


def missing(runs: Runs, study: Study) -> str:
    """Return which runs are missing, and what made the others."""
    lacking = [run for run in planned(study) if run not in runs]
    total = len(list(planned(study)))
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


PARTS: Mapping[str, Callable[[Runs, Study], str]] = {
    "absent": absent,
    "verdicts": verdicts,
    "settings": lambda _, study: settings(study),
    "findings": findings,
    "others": lambda runs, study: others(runs, study.source),
    "rows": rows,
    "domains": domains,
    "missing": missing,
}
PLACE = re.compile(rf"(<!-- ({'|'.join(PARTS)}) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_results(page: str, runs: Runs, study: Study) -> str:
    """Return the page with what the raw results say in its places."""
    return PLACE.sub(lambda found: f"{found[1]}\n{PARTS[found[2]](runs, study)}\n{found[3]}", page)


def main(arguments: list[str] | None = None) -> None:
    """Write the pages anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", choices=STUDIES, help="write only the page of this study")
    chosen = parser.parse_args(arguments).study
    for study in STUDIES.values() if chosen is None else [STUDIES[chosen]]:
        runs = read_runs(study.results)
        refuse_stale(stale(runs, {key: own_recipe(study, run) for key, run in runs.items()}), study.results)
        study.page.write_text(with_results(study.page.read_text(), runs, study))


if __name__ == "__main__":
    main()
