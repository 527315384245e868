"""Send requests for all domains to a service, many at a time and one at a time, and check every answer.

    python -m benchmarks.service_load MODEL [--requests 10000] [--connections 64] [--rounds 5] [--before CHECKOUT]
                                            [--json FILE]

The service runs in its own process. The images are those of the demo domains, and the model must be for these domains
(`prunus prune runs/demo --out MODEL`). Both kinds of load take turns in rounds: a busy machine slows both. `--before`
names another checkout that has a `.venv` (or the Python of an environment); its service takes turns with this one. The
exit status is 1 if many at a time are not at least 1.5 times as fast as one at a time, or if this service answers fewer
than 0.85 times as many of them per second as the one before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.http_load import Outcome, Question, ask, form_request
from benchmarks.process_family import cpu_seconds, family, memory_mb
from prunus.runtime.predictor import Predictor
from prunus.samples import bundled
from prunus.timing.machine import describe_machine

IMAGES = 40  # of each domain
WARM_REQUESTS = 200  # before the first round
LEAST_SPEED_UP = 1.5  # of many at a time over one at a time; less is not worth batching
LEAST_OF_BEFORE = 0.85  # of the answers per second of the service before, many at a time
MANY, ONE = "many at a time", "one at a time"

Rounds = list[tuple[Outcome, float]]  # outcome and seconds of each round


@contextmanager
def running_service(
    model: Path, *options: str, python: Path | None = None
) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Start a service on any free port, by default with this Python, and stop it with SIGTERM."""
    command = [str(python or sys.executable), "-m", "prunus", "serve", str(model), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = re.search(r":(\d+) ", process.stdout.readline())
            assert port, "the service did not start"
            yield int(port[1]), process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, "the service did not stop cleanly"


def make_questions(model: Path) -> list[Question]:
    """Return requests with test images of the demo domains, in turns, and the predictor's answers."""
    predictor = Predictor(model)
    by_domain = []
    folder = bundled("domains")
    for domain in predictor.domains:
        with zipfile.ZipFile(folder / f"{domain}.zip") as file:
            names = [name for name in sorted(file.namelist()) if name.startswith("test/") and not name.endswith("/")]
            contents = [file.read(name) for name in names[:: max(1, len(names) // IMAGES)][:IMAGES]]
        questions = []
        for content in contents:
            answer = [(guess.label, guess.probability) for guess in predictor.predict(content, domain)[0].predictions]
            questions.append(Question(form_request(f"/predict/{domain}", "image", content), answer))
        by_domain.append(questions)
    return [question for turn in zip(*by_domain, strict=True) for question in turn]


def summarize(outcomes: Rounds) -> dict[str, object]:
    """Summarize rounds: requests, rate, latencies, statuses, wrong answers."""
    seconds = np.concatenate([outcome.seconds for outcome, _ in outcomes])
    statuses: dict[str, int] = {}
    for outcome, _ in outcomes:
        for status, count in outcome.statuses.items():
            statuses[str(status)] = statuses.get(str(status), 0) + count
    p50, p95, p99 = (round(float(1000 * q), 3) for q in np.quantile(seconds, (0.5, 0.95, 0.99)))
    return {
        "requests": len(seconds),
        "per_second": round(len(seconds) / sum(total for _, total in outcomes), 1),
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "max_ms": round(float(1000 * seconds.max()), 3),
        "statuses": statuses,
        "wrong": sum(outcome.wrong for outcome, _ in outcomes),
    }


def python_of(path: Path) -> Path:
    """Return the Python of a checkout with an environment, or the path itself if it is a file."""
    python = path / ".venv" / "bin" / "python" if path.is_dir() else path
    if not python.exists():
        sys.exit(f"there is no {python}; name a checkout in which `make setup` was run, or a Python")
    return python.absolute()


@dataclass(frozen=True)
class Measured:
    """The rounds of one service, its memory in megabytes before and after them, and the CPU time of the many."""

    many: Rounds = field(default_factory=list)
    one: Rounds = field(default_factory=list)
    memory_mb: dict[str, float] = field(default_factory=dict)
    cpu_seconds: list[float] = field(default_factory=list)

    def rates(self) -> dict[str, list[float]]:
        """Return the answers per second in each round."""
        loads = {MANY: self.many, ONE: self.one}
        return {name: [len(outcome.seconds) / total for outcome, total in rounds] for name, rounds in loads.items()}

    @property
    def cpu_ms(self) -> float:
        """Return the service's CPU time per request, many at a time; other processes hardly change it."""
        return round(1000 * sum(self.cpu_seconds) / sum(len(outcome.seconds) for outcome, _ in self.many), 3)


def take_turns(
    model: Path, pythons: dict[str, Path], questions: list[list[Question]], connections: int
) -> dict[str, Measured]:
    """Measure services in rounds, in turns."""
    measured = {version: Measured() for version in pythons}
    with ExitStack() as stack:
        services = {
            version: stack.enter_context(running_service(model, python=python)) for version, python in pythons.items()
        }
        for version, (port, process) in services.items():
            asyncio.run(ask(port, questions[0][:WARM_REQUESTS], connections))
            measured[version].memory_mb["before"] = round(memory_mb(family(process.pid)), 1)
        for part in questions:
            for version, (port, process) in services.items():
                measured[version].one.append(asyncio.run(ask(port, part[: max(1, len(part) // 5)], 1)))
                start = cpu_seconds(family(process.pid))
                measured[version].many.append(asyncio.run(ask(port, part, connections)))
                measured[version].cpu_seconds.append(cpu_seconds(family(process.pid)) - start)
        for version, (_, process) in services.items():
            measured[version].memory_mb["after"] = round(memory_mb(family(process.pid)), 1)
    return measured


def measure(model: Path, requests: int, connections: int, rounds: int, before: Path | None) -> dict[str, object]:
    """Measure a service, and the one before if there is one."""
    load = os.getloadavg()[0]
    pool = make_questions(model)
    questions = [pool[i % len(pool)] for i in range(requests)]
    pythons = {"now": Path(sys.executable)} | ({"before": python_of(before)} if before else {})
    measured = take_turns(model, pythons, [questions[i::rounds] for i in range(rounds)], connections)
    now = measured["now"]
    rates = now.rates()
    found: dict[str, object] = {
        "connections": connections,
        "domains": len(Predictor(model).domains),
        MANY: summarize(now.many),
        ONE: summarize(now.one),
        "speed_up": median_ratio(rates[MANY], rates[ONE]),
        "memory_mb": now.memory_mb,
        "cpu_ms_per_request": now.cpu_ms,
        "load_before": round(load, 1),  # of the whole machine: above 0, other processes slow the measurement
        "machine": describe_machine(),
    }
    if old := measured.get("before"):
        found["before"] = {
            MANY: summarize(old.many),
            ONE: summarize(old.one),
            "memory_mb": old.memory_mb,
            "cpu_ms_per_request": old.cpu_ms,
        }
        found["of_before"] = {name: median_ratio(rates[name], old.rates()[name]) for name in (MANY, ONE)}
    return found


def median_ratio(rates: list[float], others: list[float]) -> float:
    """Return the median over rounds of how much faster one is than the other."""
    return round(float(np.median([rate / other for rate, other in zip(rates, others, strict=True)])), 2)


def complaint(found: dict[str, object]) -> str | None:
    """Return why a measurement misses the target, or None."""
    speed_up, of_before = found["speed_up"], found.get("of_before", {MANY: 1.0})
    assert isinstance(speed_up, float)
    assert isinstance(of_before, dict)
    missed = []
    if speed_up < LEAST_SPEED_UP:
        missed.append(
            f"many at a time are {speed_up:.2f} times as fast as one at a time; expected at least {LEAST_SPEED_UP}"
        )
    if of_before[MANY] < LEAST_OF_BEFORE:
        missed.append(f"{of_before[MANY]:.2f} times the answers per second of before; expected {LEAST_OF_BEFORE}")
    again = f"measure again on an idle machine (load before: {found['load_before']})"
    return "; ".join([*missed, again]) if missed else None


def show(title: str, found: dict[str, object]) -> None:
    """Print the table of a service, and check its answers."""
    table = Table(title=title)
    columns = ("requests", "per_second", "p50_ms", "p95_ms", "p99_ms", "max_ms", "statuses", "wrong")
    for column in ("", *columns):
        table.add_column(column, justify="right" if column else "left")
    for name in (MANY, ONE):
        row = found[name]
        assert isinstance(row, dict)
        table.add_row(name, *(str(row[column]) for column in columns))
        assert row["wrong"] == 0, "wrong answers"
        assert set(row["statuses"]) == {"200"}, "requests that were not answered"
    Console(width=120).print(table)
    cpu = f"{found['cpu_ms_per_request']} ms of CPU time per request, many at a time"
    print(f"memory of the service: {found['memory_mb']} MB; {cpu}; {describe_machine()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = measure(arguments.model, arguments.requests, arguments.connections, arguments.rounds, arguments.before)
    show(f"{arguments.connections} connections and one; speed-up {found['speed_up']}", found)
    if isinstance(before := found.get("before"), dict):
        show(f"before; the service now has {found['of_before']} times as many answers per second", before)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")
    sys.exit(complaint(found))


if __name__ == "__main__":
    main()
