"""Choose how trials are run: in this process, in several, or on Ray."""

import importlib.util
import math
import os
from collections.abc import Callable

from prunus.comparison.cluster import check_cluster
from prunus.comparison.execution import Executor, OneByOne
from prunus.comparison.processes import LocalProcesses
from prunus.errors import MissingExtraError, install_command

# Ray reads these when it is imported or started; only our own display is shown
RAY_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no statistics are sent to anyone
    # a worker with no GPU of its own keeps CUDA_VISIBLE_DEVICES as it is
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # lines of the log that are not printed: all
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C ends the sweep; finished trials are saved anyway
}


def local_executor(jobs: int, until: float = math.inf) -> Executor:
    """Run trials in this process, or several at a time in processes of their own; none begins after a time."""
    return OneByOne(until) if jobs == 1 else LocalProcesses(jobs, until)


def sweep_executor(jobs: int | None, address: str | None, note: Callable[[str], None]) -> Executor:
    """Run trials on Ray if it is installed, or else on this machine without it, which is noted."""
    if importlib.util.find_spec("ray") is not None:
        os.environ.update(RAY_SETTINGS)
        if address is not None:
            check_cluster(address)
        from prunus.comparison.ray_tune import RayTune  # noqa: PLC0415  # optional package

        return RayTune(jobs, address)
    if address is not None:
        raise MissingExtraError("ray", "sweep", "a cluster")
    how = f"in {jobs} processes" if jobs and jobs > 1 else "one after the other"
    note(f"Ray is not installed; get it with: {install_command('sweep')}; trials run {how}")
    return local_executor(jobs or 1)
