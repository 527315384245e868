"""Attack a service, and measure what honest clients of the same address see meanwhile.

    python -m benchmarks.service_attacks [MODEL] [--before CHECKOUT] [--only texts,slow] [--seconds 10] [--json FILE]

For each attack of `benchmarks/attackers.py` a service with default settings is started in a process of its own. Honest
clients send small images, photos and health checks, first while it is quiet and then during the attack. Clients,
attackers and service share the machine's cores. `--before` also measures the service of another checkout that has a
`.venv` (or of the Python of an environment), without targets. Without MODEL, a small one is made. The exit status is 1
if honest clients are refused, answered wrongly or late, or if the service takes or keeps too much memory. Clients whose
requests are as heavy as those of a crowd of attackers may be refused or wait (`harms`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.attackers import ATTACKS
from benchmarks.honest_clients import Client, Seen, ask_all, honest_clients
from benchmarks.process_family import PeakMemory, family, memory_mb
from benchmarks.service_load import python_of, running_service
from fuzzing.models import image_model as small_model
from prunus.bundle.file import write_bundle
from prunus.timing.machine import describe_machine

MAX_MEMORY_MB = 1000  # of all processes of a service; docs/serving.md states it
MAX_RATIO = 3.0  # of the p99 during an attack to the quiet one
ALWAYS_ALLOWED_MS = 50.0  # a p99 that is never too long
MAX_KEPT = 1.2  # of the memory before an attack, once it has ended
QUIET_SHARE = 0.6  # of the seconds of an attack
LEAD_SECONDS = 2.0  # of the attackers, in which they take what they can
SETTLE_SECONDS = 15.0  # time to return memory


@dataclass(frozen=True)
class Row:
    """What one kind of client has seen in one phase."""

    requests: int
    unsent: int  # because earlier ones took too long
    p50_ms: float
    p99_ms: float
    max_ms: float
    refused: int
    wrong: int
    statuses: dict[str, int]


@dataclass(frozen=True)
class Memory:
    """The memory of all processes of a service around an attack, in megabytes."""

    before: float
    peak: float
    after: float


@dataclass(frozen=True)
class Phase:
    """One attack: what honest clients saw before and during it, the service's memory, and what the attackers got."""

    title: str
    quiet: dict[str, Row]
    during: dict[str, Row]
    memory_mb: Memory
    attackers: dict[str, object]


def row_of(seen: Seen) -> Row:
    """Summarize what a kind of client has seen."""
    sent = seen.statuses.total()
    p50, p99, longest = (seen.quantile_ms(share) for share in (0.5, 0.99, 1.0))
    unsent = len(seen.seconds) - sent
    return Row(sent, unsent, p50, p99, longest, seen.refused, seen.wrong, dict(seen.statuses))


def attack(name: str, model: Path, python: Path, clients: dict[str, Client], seconds: float) -> Phase:
    """Measure one attack on a fresh service."""
    with running_service(model, python=python) as (port, process):
        asyncio.run(ask_all(clients, port, 1.0))  # warm
        quiet = asyncio.run(ask_all(clients, port, seconds * QUIET_SHARE))
        before = memory_mb(family(process.pid))
        domain = clients["small"].questions[0].request.split(b" ")[1].split(b"/")[2].decode()
        command = [
            sys.executable,
            "-m",
            "benchmarks.attackers",
            name,
            str(port),
            domain,
            str(LEAD_SECONDS + seconds + 1),
        ]
        with PeakMemory(process.pid) as watch, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as attacker:
            assert attacker.stdout is not None
            attacker.stdout.readline()  # its requests are ready
            time.sleep(LEAD_SECONDS)
            during = asyncio.run(ask_all(clients, port, seconds))
            said = attacker.stdout.read()
        after = settled_mb(process.pid, MAX_KEPT * before)
    return Phase(
        ATTACKS[name].title,
        {kind: row_of(seen) for kind, seen in quiet.items()},
        {kind: row_of(seen) for kind, seen in during.items()},
        Memory(round(before, 1), round(watch.peak_mb, 1), round(after, 1)),
        json.loads(said),
    )


def settled_mb(pid: int, enough_mb: float) -> float:
    """Wait until a service has returned its memory, but not for long, and return what it has."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while (now := memory_mb(family(pid))) > enough_mb and time.monotonic() < deadline:
        time.sleep(0.5)
    return now


def allowed_ms(kind: str, phases: dict[str, Phase]) -> float:
    """Return the longest p99 that a kind of client may see during an attack; the quiet one is the median of all."""
    quiet = sorted(phase.quiet[kind].p99_ms for phase in phases.values())
    return max(MAX_RATIO * quiet[len(quiet) // 2], ALWAYS_ALLOWED_MS)


def missed_targets(phases: dict[str, Phase]) -> list[str]:
    """Return a sentence for every target that was missed."""
    missed = []
    for name, phase in phases.items():
        for kind, row in phase.during.items():
            where = f"{name}: {kind}"
            allowed = allowed_ms(kind, phases)
            is_spared = kind not in ATTACKS[name].harms
            if is_spared and row.p99_ms > allowed:
                missed.append(f"{where}: p99 is {row.p99_ms:.0f} ms; at most {allowed:.0f} ms are allowed")
            if is_spared and row.refused:
                missed.append(f"{where}: {row.refused} of {row.requests} valid requests were refused: {row.statuses}")
            if row.wrong:
                missed.append(f"{where}: {row.wrong} answers are not the predictor's")
        memory = phase.memory_mb
        if memory.peak > MAX_MEMORY_MB:
            missed.append(f"{name}: memory reached {memory.peak:.0f} MB; at most {MAX_MEMORY_MB} MB are allowed")
        if memory.after > MAX_KEPT * memory.before:
            missed.append(
                f"{name}: memory stayed at {memory.after:.0f} MB; before the attack it was {memory.before:.0f}"
            )
    return missed


def show(title: str, phases: dict[str, Phase]) -> None:
    """Print the table of a service."""
    table = Table(title=title)
    for column in (
        "attack",
        "client",
        "quiet p50",
        "p99 ms",
        "attacked p50",
        "p99 ms",
        "max ms",
        "refused",
        "wrong",
        "MB",
    ):
        table.add_column(column, justify="left" if column in ("attack", "client") else "right")
    for name, phase in phases.items():
        memory = phase.memory_mb
        notes = [f"{memory.before:.0f} before", f"{memory.peak:.0f} peak", f"{memory.after:.0f} after", ""]
        for number, (kind, row) in enumerate(phase.during.items()):
            quiet = phase.quiet[kind]
            figures = (quiet.p50_ms, quiet.p99_ms, row.p50_ms, row.p99_ms, row.max_ms)
            refused = f"{row.refused} of {row.requests}"
            table.add_row(
                "" if number else name, kind, *(f"{ms:.1f}" for ms in figures), refused, str(row.wrong), notes[number]
            )
        table.add_section()
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--before", type=Path)
    parser.add_argument("--only", default=",".join(ATTACKS))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    pythons = {"before": python_of(arguments.before)} if arguments.before else {}
    pythons["now"] = Path(sys.executable)
    load = os.getloadavg()[0]
    found: dict[str, dict[str, Phase]] = {}
    with tempfile.TemporaryDirectory() as folder:
        model = arguments.model or Path(folder) / "small.prunus"
        if arguments.model is None:
            write_bundle(model, small_model())
        clients = honest_clients(model)
        for version, python in pythons.items():
            found[version] = {
                name: attack(name, model, python, clients, arguments.seconds) for name in arguments.only.split(",")
            }
            show(f"service {version}; {describe_machine()}", found[version])
    missed = missed_targets(found["now"])
    content = {version: {name: asdict(phase) for name, phase in phases.items()} for version, phases in found.items()}
    facts = {
        "machine": describe_machine(),
        "load_before": round(load, 1),
        "seconds": arguments.seconds,
        "missed": missed,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(facts | content, indent=2) + "\n")
    sys.exit("missed: " + "; ".join(missed) if missed else 0)


if __name__ == "__main__":
    main()
