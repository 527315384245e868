"""Name the machine that a measurement comes from."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe_machine() -> str:
    """Name the processor, its cores and the Python."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    processor = ", ".join(sorted(names)) or platform.processor() or platform.machine()
    return f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}"
