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
        union: share of the kernels that any domain uses.
        seconds: training time so far.
        images_per_second: training images of this epoch, with the time of validation (0 if unknown).
        has_switches: whether the method chooses kernels; if not, it uses all of them in every domain.
        is_ending: whether kernels are counted as in the model file, at the end of a run; before, all that are switched
            on count, even if nothing reads them.
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
    is_ending: bool = False


@dataclass(frozen=True)
class DomainEnding:
    """The accuracy of one domain at the end of a run, beside what needs no training.

    Args:
        usage: share of the kernels, counted as in the model file.
        chance: accuracy of an answer that ignores the image.
        validation_accuracy: None if no images are held out.
        frozen_accuracy: of a linear classifier on the features of the backbone; None if unknown.
    """

    usage: float
    chance: float
    validation_images: int = 0
    validation_accuracy: float | None = None
    frozen_accuracy: float | None = None


@dataclass(frozen=True)
class Ending:
    """The state that a finished run has kept, and what is wrong with it.

    Args:
        step: of the end of the run.
        union: share of the kernels that any domain uses, counted as in the model file.
        intersection: of those that every domain uses.
        findings: sentences for the user.
    """

    step: int
    domains: dict[str, DomainEnding]
    union: float
    has_switches: bool
    findings: tuple[str, ...] = ()
    intersection: float = 0.0

    def mean_accuracy(self) -> float | None:
        """Return the mean validation accuracy of the domains that have one."""
        known = [domain.validation_accuracy for domain in self.domains.values()]
        accuracies = [accuracy for accuracy in known if accuracy is not None]
        return sum(accuracies) / len(accuracies) if accuracies else None


LINE = TypeAdapter(EpochReport)
ENDING = TypeAdapter(Ending)


class RunFolder:
    """The files of a training run; which of them exist depends on what was done with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe = path / "recipe.json"  # as it was trained, with all defaults filled in
        self.checkpoint = path / "checkpoint.safetensors"  # the last saved state
        self.previous = path / "previous.safetensors"  # the state saved before it
        self.backbone = path / "backbone.safetensors"  # the weights of a user's network that no other file holds
        self.lock = path / ".lock"  # held by the process that trains
        self.best = path / "best.safetensors"  # the best epoch's state, if training.keep is "best"
        self.frozen_features = path / "frozen_features.safetensors"  # a linear classifier per domain
        self.teacher = path / "teacher"  # a run of its own, if the recipe's teacher is "finetune"
        self.teachers = path / "teachers.json"  # the domains that the teacher's backbone teaches, and why
        self.log = path / "log.jsonl"  # one line per epoch
        self.ending = path / "ending.json"  # an Ending, once the run is finished
        self.tensorboard = path / "tensorboard"
        self.versions = path / "versions.json"  # of the packages that trained it
        self.results = path / "results.json"  # an Evaluation
        self.bench = path / "bench.json"  # a Benchmark
        self.model = path / "model.prunus"
        self.plots = path / "plots"
        self.report = path / "report.html"

    def holds_run(self) -> bool:
        """Return whether this folder holds a run; a checkpoint without its recipe counts too."""
        return any(file.exists() for file in (self.recipe, self.checkpoint, self.previous))

    def is_outdated(self, file: Path) -> bool:
        """Return whether a file about the run is missing, or older than the saved state of the run."""
        if not file.exists():
            return True
        return self.checkpoint.exists() and file.stat().st_mtime_ns < self.checkpoint.stat().st_mtime_ns

    def epochs(self) -> list[EpochReport]:
        """Read the log, without a last line that was cut short when the process was killed."""
        return read_log(self.log)

    def read_ending(self) -> Ending | None:
        """Read how the run ended; None if it is unfinished, or from an earlier version."""
        try:
            return ENDING.validate_json(self.ending.read_bytes())
        except (OSError, ValidationError):
            return None


def read_log(path: Path) -> list[EpochReport]:
    """Read the epochs of a log up to the first line that is not one; a missing log has none."""
    epochs: list[EpochReport] = []
    try:
        for line in path.read_bytes().splitlines():
            epochs.append(LINE.validate_json(line))
    except (OSError, ValidationError):
        pass
    return epochs
