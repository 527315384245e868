"""Run trials on Ray Tune: on this machine, or on a cluster."""

import logging
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray
import torch
from ray import tune
from typing_extensions import override

from prunus.comparison.cluster import no_cluster
from prunus.comparison.execution import Ended
from prunus.comparison.relay import run_remotely
from prunus.comparison.trials import Trial
from prunus.errors import TrainingInterrupted
from prunus.training.observers import Observers, Watch

FOLDER = ".ray"  # in the folder of the trials; Ray Tune keeps its own state there while it runs
OBJECT_STORE = 100 * 2**20  # bytes; trials share nothing but their recipes
QUIET = logging.CRITICAL + 1  # failures are part of the result
NUMBER = "number"  # of a trial
MESSAGE = "message"  # an Event or how a trial ended


@dataclass(frozen=True)
class Resources:
    """The CPU cores and GPUs of a machine, or of one trial."""

    cpus: float
    gpus: float

    @property
    def threads(self) -> int:
        """Return how many threads a trial uses."""
        return max(1, int(self.cpus))


def resources_per_trial(machines: Sequence[Resources], jobs: int) -> Resources:
    """Divide machines among trials that run at the same time; a trial uses one machine and at most one GPU."""
    cpus = min(machine.cpus for machine in machines) / math.ceil(jobs / len(machines))
    gpus = sum(machine.gpus for machine in machines)
    return Resources(math.floor(cpus) if cpus >= 1 else cpus, 1 / math.ceil(jobs / gpus) if gpus else 0.0)


@dataclass(frozen=True)
class RayTune:
    """Trials of Ray Tune.

    Args:
        jobs: trials at a time; one per GPU if None, or one per machine if there are no GPUs.
        address: of a cluster; this machine alone if None.
    """

    jobs: int | None
    address: str | None

    def run(self, trials: Sequence[Trial], watch: Watch, ended: Callable[[Ended], None]) -> None:
        """Run trials; Ctrl-C ends those that are running, which continue from their last checkpoints."""
        if not trials:
            return
        logging.getLogger("ray").setLevel(QUIET)
        is_ours = not ray.is_initialized()
        storage = trials[0].folder / FOLDER
        try:
            if is_ours:
                _connect(self.address)
            self._tune(trials, watch, ended)
        except KeyboardInterrupt:
            raise TrainingInterrupted("finished trials are saved: continue with the same command") from None
        finally:
            if is_ours:
                ray.shutdown()
            shutil.rmtree(storage, ignore_errors=True)

    def _tune(self, trials: Sequence[Trial], watch: Watch, ended: Callable[[Ended], None]) -> None:
        machines = _machines()
        if trials[0].device == "cpu":
            machines = [Resources(machine.cpus, 0.0) for machine in machines]
        gpus = sum(machine.gpus for machine in machines)
        jobs = min(self.jobs or int(gpus) or len(machines), len(trials))
        each = resources_per_trial(machines, jobs)
        trainable = tune.with_parameters(_train, trials=list(trials), threads=each.threads)
        storage = str(trials[0].folder / FOLDER)
        callbacks: list[tune.Callback] = [Messages(trials, watch, ended)]
        tune.Tuner(
            tune.with_resources(trainable, {"cpu": each.cpus, "gpu": each.gpus}),
            param_space={NUMBER: tune.grid_search(list(range(len(trials))))},
            tune_config=tune.TuneConfig(max_concurrent_trials=jobs, reuse_actors=True),
            run_config=tune.RunConfig(name="trials", storage_path=storage, callbacks=callbacks, verbose=0),
        ).fit()


def _connect(address: str | None) -> None:
    if address is None:
        ray.init(
            address="local",
            include_dashboard=False,
            log_to_driver=False,
            logging_level=QUIET,
            object_store_memory=OBJECT_STORE,
        )
        return
    try:
        ray.init(address=address, log_to_driver=False, logging_level=QUIET)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise no_cluster(address, error) from None


def _machines() -> list[Resources]:
    resources = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    return [Resources(found.get("CPU", 1.0), found.get("GPU", 0.0)) for found in resources]


def _train(config: dict[str, int], trials: Sequence[Trial], threads: int) -> None:
    """Run one trial in a worker of Ray."""
    torch.set_num_threads(threads)
    trial = trials[config[NUMBER]]
    tune.report({MESSAGE: run_remotely(trial, lambda event: tune.report({MESSAGE: event}))})


class Messages(tune.Callback):
    """What receives the messages of workers, in the process that started them."""

    def __init__(self, trials: Sequence[Trial], watch: Watch, ended: Callable[[Ended], None]) -> None:
        self._trials = trials
        self._watch = watch
        self._ended = ended
        self._observers: dict[int, Observers] = {}
        self._has_ended: set[int] = set()

    def __getstate__(self) -> dict[str, object]:
        """Leave out everything from the copy that Ray Tune saves and never uses: the table is read from run folders."""
        return {}

    @override
    def on_trial_result(
        self, iteration: int, trials: object, trial: Any, result: dict[str, Any], **info: object
    ) -> None:
        number = trial.config[NUMBER]
        if isinstance(event := result[MESSAGE], Ended):
            self._end(number, event)
            return
        if number not in self._observers:
            self._observers[number] = Observers(self._watch(self._trials[number].title))
        event.tell(self._observers[number])

    @override
    def on_trial_error(self, iteration: int, trials: object, trial: Any, **info: object) -> None:
        """Report a worker that could not begin, or that was killed."""
        number = trial.config[NUMBER]
        lines = str(trial.get_error() or "its worker died").strip().splitlines()
        self._end(number, Ended(self._trials[number].name, lines[-1]))

    def _end(self, number: int, end: Ended) -> None:
        if number not in self._has_ended:
            self._has_ended.add(number)
            self._ended(end)
