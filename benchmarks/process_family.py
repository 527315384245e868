"""The memory and CPU time of a process and of all processes that it started, read from /proc."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
EVERY_SECONDS = 0.05
TURNS = 10  # samples between two searches for new processes, which read the state of every process


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has just ended
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(entry.name))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def memory_mb(pids: list[int]) -> float:
    """Return the resident memory of processes; pages that they share count in each of them."""
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * PAGE_MB


def cpu_seconds(pids: list[int]) -> float:
    """Return the CPU time of processes and of their children that have ended."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks * TICK_SECONDS


class PeakMemory:
    """A context that watches the memory of a process and its descendants; `peak_mb` is the largest sample."""

    def __init__(self, pid: int) -> None:
        self.peak_mb = 0.0
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        turn = 0
        pids: list[int] = []
        while not self._ended.wait(EVERY_SECONDS):
            if turn % TURNS == 0:
                pids = family(self._pid)
            self.peak_mb = max(self.peak_mb, memory_mb(pids))
            turn += 1
