"""Name the machine that a measurement comes from."""

import os
import platform
from pathlib import Path


def usable_processors() -> int:
    """Count the processors that this process may use; limits on CPU time, as in containers, are not seen."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe_machine() -> str:
    """Name the processor, its usable cores and the Python version."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    processor = ", ".join(sorted(names)) or platform.processor() or platform.machine()
    fields = [_field(lines, name) for name in ("cpu family", "model")]
    if all(fields):  # virtual machines often report a name that many processors share
        processor += f" (family {fields[0]}, model {fields[1]})"
    usable = usable_processors()
    present = os.cpu_count()
    cores = f"{usable} cores" if usable == present else f"{usable} of {present} cores"
    return f"{processor}, {cores}, Python {platform.python_version()}"


def _field(lines: list[str], name: str) -> str:
    return next((value.strip() for key, _, value in (line.partition(":") for line in lines) if key.strip() == name), "")
