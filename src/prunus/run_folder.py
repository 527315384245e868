"""A run folder: the name of every file in it, and the epochs of its log."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError


@dataclass(frozen=True)
class DomainProgress:
    """Results of one domain in an epoch; `validation_accuracy` is None if no images are held out."""

    loss: float
    train_accuracy: float
    validation_accuracy: float | None
    usage: float
    budget_multiplier: float = 0.0


@dataclass(frozen=True)
class EpochReport:
    """Results of all domains in an epoch: a line of the log.

    Args:
        seconds: training time so far.
        images_per_second: training images of this epoch, with the time of validation (0 if unknown).
        has_switches: whether the method chooses kernels; if not, it uses all of them in every domain.
    """

    epoch: int
    step: int
    domains: dict[str, DomainProgress]
    union: float
    intersection: float = 0.0
    sharing_multiplier: float = 0.0
    seconds: float = 0.0
    images_per_second: float = 0.0
    has_switches: bool = True


LINE = TypeAdapter(EpochReport)


class RunFolder:
    """The files of a training run; which of them exist depends on what was done with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe = path / "recipe.json"  # as it was trained, with all defaults filled in
        self.checkpoint = path / "checkpoint.safetensors"  # the last saved state
        self.best = path / "best.safetensors"  # the best epoch's state, if training.keep is "best"
        self.log = path / "log.jsonl"  # one line per epoch
        self.tensorboard = path / "tensorboard"
        self.versions = path / "versions.json"  # of the packages that trained it
        self.results = path / "results.json"  # an Evaluation
        self.bench = path / "bench.json"  # a Benchmark
        self.model = path / "model.prunus"
        self.plots = path / "plots"
        self.report = path / "report.html"

    def epochs(self) -> list[EpochReport]:
        """Read the log, without a last line that was cut short when the process was killed."""
        return read_log(self.log)


def read_log(path: Path) -> list[EpochReport]:
    """Read the epochs of a log up to the first line that is not one; a missing log has none."""
    epochs: list[EpochReport] = []
    try:
        for line in path.read_bytes().splitlines():
            epochs.append(LINE.validate_json(line))
    except (OSError, ValidationError):
        pass
    return epochs
