"""Train a domain that is added to a model file, and before it the network that teaches it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prunus.adding.recipe import teacher_of
from prunus.backbone.own.registry import TIMM_PREFIX, not_registered
from prunus.backbone.weights import fingerprint
from prunus.backbone.zoo import load_backbone
from prunus.bundle.bundle import Bundle
from prunus.config import BackboneChoice, Recipe
from prunus.editing.original import check_original, original_choice
from prunus.errors import UnknownNameError
from prunus.extending.continuing import RUN, TEACHER, check_same
from prunus.progress.choice import with_progress
from prunus.recipes import TRAINED_FIRST
from prunus.run_folder import RunFolder
from prunus.training.observers import Observer, Observers
from prunus.training.run import TrainedRun, open_run, train_or_continue


@dataclass(frozen=True)
class Learning:
    """Where and how a domain is learned.

    Args:
        folder: holds the run, and that of the teacher.
        progress: as in `with_progress`.
    """

    folder: Path
    observers: Sequence[Observer] | None
    progress: bool | None
    device: str
    use_cache: bool

    def learn(self, recipe: Recipe, teacher: str | Path | None, original: BackboneChoice | None) -> TrainedRun:
        """Train the domain of a recipe, or continue, and return its run.

        Args:
            teacher: "finetune", the folder of a run, or None.
            original: the network that becomes the teacher with "finetune".
        """
        (domain,) = recipe.domains
        run = self.folder / RUN
        teaching = None if teacher is None else Path(teacher)
        if teacher == TRAINED_FIRST and original is not None:
            teaching = self.folder / TEACHER
            if outdone(teaching) is None:
                check_same(_taught(recipe, teaching), run)
            self._train(teacher_of(recipe, original), teaching, f"teacher of {domain.name}")
            if reason := outdone(teaching):
                Observers(with_progress(self.observers, self.progress, domain.name)).noted(reason)
                teaching = None
        wanted = _taught(recipe, teaching)
        check_same(wanted, run)
        self._train(wanted, run, domain.name)
        return open_run(run, "cpu")

    def _train(self, recipe: Recipe, place: Path, title: str) -> None:
        watching = with_progress(self.observers, self.progress, title)
        train_or_continue(recipe, place, watching, self.device, self.use_cache)


def find_original(bundle: Bundle, weights: str | None, can_do_without: bool) -> BackboneChoice:
    """Return the network that a model file was made from, and refuse one with other weights.

    Args:
        can_do_without: whether it is only needed for a teacher.
    """
    choice = original_choice(bundle, weights)
    try:
        network = load_backbone(choice).network
    except UnknownNameError as error:
        if choice.name.startswith(TIMM_PREFIX):
            raise
        other_way = "; the argument teacher=None trains without it" if can_do_without else ""
        raise not_registered("the model file was made from", choice.name, other_way) from error
    check_original(bundle, choice, fingerprint(network))
    return choice


def outdone(teacher: Path) -> str | None:
    """Say so if a finished teacher answers worse than a linear classifier on frozen features: it would mislead."""
    ending = RunFolder(teacher).read_ending()
    for name, domain in ending.domains.items() if ending else ():
        reached, frozen = domain.validation_accuracy, domain.frozen_accuracy
        if reached is not None and frozen is not None and reached < frozen:
            return (
                f"the teacher is left out: it classifies {reached:.1%} of the validation images of {name!r} correctly, "
                f"a linear classifier on frozen features {frozen:.1%}; train it for longer with training.epochs"
            )
    return None


def _taught(recipe: Recipe, teacher: Path | None) -> Recipe:
    return recipe if teacher is None else recipe.model_copy(update={"teacher": str(teacher.resolve())})
