"""Do work in a separate process that may crash, and read what it reported until then."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any


def run_in_child(work: Callable[[int], None]) -> tuple[list[Any], int]:
    """Run a function in a fork of this process; return the JSON lines that it wrote, and its exit code.

    Args:
        work: writes to the file descriptor that it receives.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            work(writing)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        entries = [json.loads(line) for line in lines]
    _, status = os.waitpid(child, 0)
    return entries, os.waitstatus_to_exitcode(status)
