"""Name the machine that a measurement comes from."""

import os
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")  # of Linux


def usable_processors() -> int:
    """Count the processors that this process may use; limits on CPU time, as in containers, are not seen."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_flags() -> frozenset[str]:
    """Return what the processor can do, as Linux names it on x86; nothing elsewhere."""
    return frozenset(_field(_processor_lines(), "flags").split())


def describe_machine() -> str:
    """Name the processor, its usable cores and the Python version."""
    lines = _processor_lines()
    names = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    processor = ", ".join(sorted(names)) or platform.processor() or platform.machine()
    fields = [_field(lines, name) for name in ("cpu family", "model")]
    if all(fields):  # virtual machines often report a name that many processors share
        processor += f" (family {fields[0]}, model {fields[1]})"
    usable = usable_processors()
    present = os.cpu_count()
    cores = f"{usable} cores" if usable == present else f"{usable} of {present} cores"
    return f"{processor}, {cores}, Python {platform.python_version()}"


def _processor_lines() -> list[str]:
    return CPUINFO.read_text().splitlines() if CPUINFO.exists() else []


def _field(lines: list[str], name: str) -> str:
    return next((value.strip() for key, _, value in (line.partition(":") for line in lines) if key.strip() == name), "")
