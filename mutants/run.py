"""Change single operators of the package and check that the tests notice.

    python -m mutants.run [--count 25] [--seed 0] [--part PART ...] [--list] [--json FILE]

Draws `count` mutants of every part of the package with the operators of cosmic-ray, makes each in a copy of the
project (build/mutants/tree), and runs the tests near it until one fails: those of the file of the same name, those that
import the module and those of its room, slow ones last. Verdicts are kept in build/mutants/verdicts.jsonl, so an
interrupted run continues. A mutant is judged again when its module has changed, a survivor also with --again.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mutants.judging import KILLED, STEP_SECONDS, SURVIVED, Tests, Verdict, check_copy, judge, unfit_of
from mutants.places import Place, mutated
from mutants.results import Judged, Summary, Survivor, difference, keep, kept, summarize, word_for, words
from mutants.sample import PARTS, draw
from mutants.tree import ROOT, copy_project
from prunus.timing.machine import describe_machine

BUILD = ROOT / "build/mutants"
SOURCE = BUILD / "tree/src/prunus"  # the original may change during a run
ENOUGH = 0.95  # of the mutants that change anything
console = Console(width=200)


def main() -> int:
    """Judge the sample, print the table and return 1 if too many survive."""
    options = _options()
    parts = options.part or list(PARTS)
    python = copy_project(BUILD / "tree")
    drawn = [(part, place) for part in parts for place in draw(SOURCE, part, options.count, options.seed)]
    if options.list:
        for part, place in drawn:
            _say(f"{part}  {place.module}:{place.line}  {place.operator}  {place.text}")
        return 0
    verdicts = BUILD / "verdicts.jsonl"
    if not options.report:
        with Tests(BUILD / "tree", python, options.seconds) as tests:
            check_copy(tests)
            _judge_all(tests, drawn, verdicts, again=options.again)
    known = kept(verdicts)
    summary = summarize(
        [known[place.name] for _part, place in drawn if place.name in known],
        "make mutants",
        describe_machine(),
        f"cosmic-ray {version('cosmic-ray')}",
        options.seed,
    )
    _show(summary)
    if options.json:
        options.json.write_text(summary.model_dump_json(indent=1) + "\n")
    return int(summary.killed_share < ENOUGH)


def _judge_all(tests: Tests, drawn: list[tuple[str, Place]], verdicts: Path, again: bool) -> None:
    """Judge what is not judged yet, then once more where the test that noticed a mutant fails without it too."""
    unfit: set[str] = set()
    while True:
        known = kept(verdicts)
        for number, (part, place) in enumerate(drawn, 1):
            old = known.get(place.name)
            is_new = old is None or old.source != _digest(place) or (again and old.outcome != KILLED)
            if is_new or (old and old.test in unfit):
                row = _judged(part, place, _verdict(tests, place, unfit))
                keep(verdicts, row)
                _say(f"{number}/{len(drawn)} {row.outcome} in {row.seconds:.0f} s: {_change(row)}")
        noticing = {row.test for row in kept(verdicts).values() if row.outcome == KILLED}
        found = unfit_of(tests, noticing - _fit(verdicts)) - unfit
        _fit(verdicts, noticing - found)
        for test in sorted(found):
            _say(f"left out, since it fails without a mutant: {test}")
        if not found:
            return
        unfit |= found
        again = False


def _verdict(tests: Tests, place: Place, unfit: set[str]) -> Verdict:
    """Judge a mutant, unless it is known to change nothing."""
    word = word_for(_judged("", place, Verdict(SURVIVED, "", 0.0)), words())
    return Verdict(SURVIVED, "", 0.0) if word and word.equivalent else judge(tests, place, frozenset(unfit))


def _judged(part: str, place: Place, verdict: Verdict) -> Judged:
    source = (SOURCE / place.module).read_text()
    before, after = difference(source, mutated(source, place) or "")
    return Judged(
        place.name, part, place.module, place.line, place.operator, before, after,
        verdict.outcome, verdict.test, verdict.seconds, _digest(place),
    )  # fmt: skip


def _fit(verdicts: Path, more: Collection[str] = ()) -> set[str]:
    """Return the tests that are known to pass without a mutant, and add some."""
    file = verdicts.with_name("fit_tests.txt")
    found = {*(file.read_text().splitlines() if file.exists() else ()), *more}
    file.write_text("".join(f"{test}\n" for test in sorted(found)))
    return found


def _change(row: Judged | Survivor) -> str:
    return f"{row.module}:{row.line}  {row.before}  ->  {row.after}"


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False)


def _digest(place: Place) -> str:
    return hashlib.sha256((SOURCE / place.module).read_bytes()).hexdigest()[:10]


def _show(summary: Summary) -> None:
    table = Table("part", "drawn", "change nothing", "killed", "survived")
    for name, part in summary.parts.items():
        table.add_row(name, str(part.drawn), str(part.equivalent), str(part.killed), str(part.survived))
    console.print(table)
    for survivor in summary.survivors:
        _say(f"survived: {_change(survivor)} ({survivor.why})")
    console.print(f"killed: {summary.killed} of {summary.killed + summary.survived} ({summary.killed_share:.1%})")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=25, help="mutants of each part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", action="append", choices=list(PARTS), help="only this part; may be repeated")
    parser.add_argument("--seconds", type=float, default=STEP_SECONDS, help="of each step: more on a busy machine")
    parser.add_argument("--again", action="store_true", help="judge survivors again")
    parser.add_argument("--report", action="store_true", help="count what is judged so far, and judge nothing")
    parser.add_argument("--list", action="store_true", help="list the mutants instead of judging them")
    parser.add_argument("--json", type=Path, help="write the summary to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
