"""Send requests for all domains to a service, many at a time and one at a time, and check every answer.

    python -m benchmarks.service_load MODEL [--requests 10000] [--connections 64] [--rounds 5] [--json FILE]

The service runs in its own process. The images are those of the demo domains, and the model must be for these domains
(`prunus prune runs/demo --out MODEL`). Both kinds of load take turns in rounds: a busy machine slows both. The exit
status is 1 if many at a time are not at least 1.5 times as fast as one at a time.
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
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.http_load import Outcome, Question, ask, form_request
from prunus.runtime.predictor import Predictor
from prunus.samples import bundled
from prunus.timing.machine import describe_machine

IMAGES = 40  # of each domain
LEAST_SPEED_UP = 1.5  # of many at a time over one at a time; less is not worth batching


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
            answer = [(guess.label, guess.probability) for guess in predictor.predict(content, domain)]
            questions.append(Question(form_request(f"/predict/{domain}", "image", content), answer))
        by_domain.append(questions)
    return [question for turn in zip(*by_domain, strict=True) for question in turn]


def summarize(outcomes: list[tuple[Outcome, float]]) -> dict[str, object]:
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


def memory_mb(process: subprocess.Popen[str]) -> float:
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def measure(model: Path, requests: int, connections: int, rounds: int) -> dict[str, object]:
    """Measure a service in rounds."""
    load = os.getloadavg()[0]
    pool = make_questions(model)
    many = [pool[i % len(pool)] for i in range(requests)]
    parts = [many[i::rounds] for i in range(rounds)]
    together, alone = [], []
    with running_service(model) as (port, process):
        asyncio.run(ask(port, pool, connections))  # warm
        before = memory_mb(process)
        for part in parts:
            alone.append(asyncio.run(ask(port, part[: max(1, len(part) // 5)], 1)))
            together.append(asyncio.run(ask(port, part, connections)))
        after = memory_mb(process)
    found = {"many at a time": summarize(together), "one at a time": summarize(alone)}
    rates = [len(t[0].seconds) / t[1] / (len(a[0].seconds) / a[1]) for t, a in zip(together, alone, strict=True)]
    return {
        "connections": connections,
        "domains": len(Predictor(model).domains),
        **found,
        "speed_up": round(float(np.median(rates)), 2),
        "memory_mb": {"before": round(before, 1), "after": round(after, 1)},
        "load_before": round(load, 1),  # of the whole machine: above 0, other processes slow the measurement
        "machine": describe_machine(),
    }


def complaint(found: dict[str, object]) -> str | None:
    """Return why a measurement misses the target, or None."""
    speed_up = found["speed_up"]
    assert isinstance(speed_up, float)
    if speed_up >= LEAST_SPEED_UP:
        return None
    return (
        f"many at a time are {speed_up:.2f} times as fast as one at a time; expected at least {LEAST_SPEED_UP}; "
        f"measure again on an idle machine (load before: {found['load_before']})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = measure(arguments.model, arguments.requests, arguments.connections, arguments.rounds)
    table = Table(title=f"{arguments.connections} connections and one; speed-up {found['speed_up']}")
    columns = ("requests", "per_second", "p50_ms", "p95_ms", "p99_ms", "max_ms", "statuses", "wrong")
    for column in ("", *columns):
        table.add_column(column, justify="right" if column else "left")
    for name in ("many at a time", "one at a time"):
        row = found[name]
        assert isinstance(row, dict)
        table.add_row(name, *(str(row[column]) for column in columns))
        assert row["wrong"] == 0, "wrong answers"
        assert set(row["statuses"]) == {"200"}, "requests that were not answered"
    Console(width=120).print(table)
    print(f"memory of the service: {found['memory_mb']} MB; {describe_machine()}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")
    sys.exit(complaint(found))


if __name__ == "__main__":
    main()
