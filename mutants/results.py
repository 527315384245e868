"""The verdicts of a run, kept one a line so that a run continues, and their summary."""

from __future__ import annotations

import difflib
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from mutants.judging import KILLED

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WORDS = Path(__file__).with_name("survivors.toml")


class Word(BaseModel):
    """What is said about a survivor: whether it changes anything, and why no test notices it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    module: str
    before: str
    after: str
    equivalent: bool
    why: str


@dataclass(frozen=True)
class Judged:
    """A mutant with its verdict; `source` is a digest of the module that was mutated."""

    name: str
    part: str
    module: str
    line: int
    operator: str
    before: str
    after: str
    outcome: str
    test: str
    seconds: float
    source: str


def kept(path: Path) -> dict[str, Judged]:
    """Read the verdicts of earlier runs by the names of the mutants; later ones replace earlier ones."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {row.name: row for row in (Judged(**json.loads(line)) for line in lines)}


def keep(path: Path, row: Judged) -> None:
    """Add a verdict."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(asdict(row)) + "\n")


def difference(before: str, after: str) -> tuple[str, str]:
    """Return the lines that a mutant removes and adds."""
    lines = [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]
    return tuple(" ".join(line[2:].strip() for line in lines if line[0] == sign) for sign in "-+")  # type: ignore[return-value]


def words() -> list[Word]:
    """Read what is said about survivors."""
    return [Word(**row) for row in tomllib.loads(WORDS.read_text()).get("survivor", [])]


def word_for(row: Judged, known: list[Word]) -> Word | None:
    """Find what is said about a survivor, by the text of its lines."""
    found = [word for word in known if (word.module, word.before, word.after) == (row.module, row.before, row.after)]
    return found[0] if found else None


class Part(BaseModel):
    """The counts of one part of the package."""

    drawn: int
    equivalent: int
    killed: int
    survived: int


class Survivor(BaseModel):
    """One survivor, with a word about it."""

    module: str
    line: int
    before: str
    after: str
    why: str


class Summary(BaseModel):
    """The whole run: `killed_share` is the share of the mutants that change anything."""

    command: str
    machine: str
    library: str
    seed: int
    drawn: int
    equivalent: int
    killed: int
    survived: int
    killed_share: float
    parts: dict[str, Part]
    survivors: list[Survivor]
    equivalents: list[Survivor]


def summarize(rows: list[Judged], command: str, machine: str, library: str, seed: int) -> Summary:
    """Count the verdicts; a survivor that changes nothing is not counted as one."""
    known = words()
    said = {row.name: word_for(row, known) for row in rows if row.outcome != KILLED}
    same = {name for name, word in said.items() if word is not None and word.equivalent}
    counts = {
        part: Counter(_kind(row, same) for row in rows if row.part == part)
        for part in dict.fromkeys(r.part for r in rows)
    }
    total = sum(counts.values(), Counter[str]())
    changing = total["killed"] + total["survived"]
    listed = [(row.name in same, _survivor(row, said[row.name])) for row in rows if row.name in said]
    return Summary(
        command=command, machine=machine, library=library, seed=seed, drawn=len(rows),
        equivalent=total["equivalent"], killed=total["killed"], survived=total["survived"],
        killed_share=round(total["killed"] / changing, 4) if changing else 1.0,
        parts={part: _part(found) for part, found in counts.items()},
        survivors=[each for equal, each in listed if not equal],
        equivalents=[each for equal, each in listed if equal],
    )  # fmt: skip


def _part(found: Counter[str]) -> Part:
    equivalent, killed, survived = (found[kind] for kind in ("equivalent", "killed", "survived"))
    return Part(drawn=equivalent + killed + survived, equivalent=equivalent, killed=killed, survived=survived)


def _kind(row: Judged, same: set[str]) -> str:
    return "killed" if row.outcome == KILLED else "equivalent" if row.name in same else "survived"


def _survivor(row: Judged, word: Word | None) -> Survivor:
    why = word.why if word else "nothing is said about it yet"
    return Survivor(module=row.module, line=row.line, before=row.before, after=row.after, why=why)
