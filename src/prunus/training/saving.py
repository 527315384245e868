"""Save the last and the best state of a run, and refuse states that are not finite."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import NoReturn

import torch

from prunus.checkpoints.best import better
from prunus.checkpoints.checkpoint import (
    Checkpoint,
    Identity,
    Position,
    read_checkpoint,
    save_checkpoint,
    share_checkpoint,
    write_checkpoint,
)
from prunus.checkpoints.known_classifiers import known_classifiers
from prunus.errors import DamagedFileError, TrainingError
from prunus.files import write_json
from prunus.learning.frozen_features import LinearClassifier, write_classifiers
from prunus.learning.learner import Learner, copy_state, network_state
from prunus.run_folder import Ending, EpochReport, RunFolder


class Saver:
    """Writes the checkpoints of one run and knows how far it has come.

    Args:
        cache: folder in which runs on the same images share classifiers on frozen features.
    """

    def __init__(self, folder: RunFolder, learner: Learner, identity: Identity, cache: Path | None = None) -> None:
        self._folder = folder
        self._learner = learner
        self._identity = identity
        self._training = learner.recipe.training
        self._saved_at = time.monotonic()
        self._newest_is_whole = True
        self.position = Position(step=0, total_steps=0)
        self.known = known_classifiers(cache, identity, learner.net.device) if cache else {}

    def begin(self, total_steps: int, start: Checkpoint | None) -> None:
        """Begin a run, or continue one; a run that starts from another one no longer needs that one afterwards."""
        if start is None:
            self.position = Position(step=0, total_steps=total_steps)
            if self._learner.recipe.init:
                self.save()
            return
        self._newest_is_whole = start.instead_of is None
        self._learner.restore(start.tensors)
        before = start.identity.recipe.training
        is_longer = (before.epochs, before.patience) != (self._training.epochs, self._training.patience)
        ended = start.position.stopped_early and not is_longer
        self.position = start.position.model_copy(update={"total_steps": total_steps, "stopped_early": ended})

    def forget_damaged_best(self) -> str | None:
        """Return what to tell the user if the best epoch's file is damaged; epochs to come then replace it."""
        best = self.position.best
        if self._training.keep != "best" or best is None or self.position.is_finished:
            return None
        damage = self._learner.processes.agree(self._damage_of_best())
        if damage is None:
            return None
        self.position = self.position.model_copy(update={"best": None})
        return f"{damage}; epoch {best.epoch + 1} is lost, so the best of the epochs that follow is kept"

    def _damage_of_best(self) -> str | None:
        if self._learner.processes.is_first and self._folder.best.exists():
            try:
                read_checkpoint(self._folder.best)
            except DamagedFileError as damage:
                return str(damage)
        return None

    def move_to(self, step: int) -> None:
        """Note that a step is done."""
        self.position = self.position.model_copy(update={"step": step})

    def judge(self, report: EpochReport, within_limits: bool | None = None) -> None:
        """Save an epoch that is better than all before it, or end the run if none was for too long.

        Args:
            within_limits: whether the network is within its budget; if None, the usage of its domains tells.
        """
        training = self._training
        share = self._learner.recipe.budget.kernels if self._learner.chosen.method.has_budget else None
        budget = share if within_limits is None else None
        if within_limits is not False and (best := better(self.position.best, report, budget)):
            self.position = self.position.model_copy(update={"best": best})
            if training.keep == "best":
                self._check_state()
                save_checkpoint(self._folder.best, self._learner, self.position, self._identity)
        elif training.patience and (best := self.position.best) and report.epoch - best.epoch >= training.patience:
            self.position = self.position.model_copy(update={"stopped_early": True})

    def settle_best(self, settle: Callable[[], Ending]) -> Ending | None:
        """Bring the best state into the form in which a run ends, if it is kept; the last state stays as it is.

        Args:
            settle: changes the network and describes the result.
        """
        file = self._folder.best
        best = self.position.best
        if self._training.keep != "best" or best is None:
            return None
        processes = self._learner.processes
        saved = share_checkpoint(read_checkpoint(file) if processes.is_first and file.exists() else None, processes)
        if saved is None:  # someone has removed it, so the last state is the one that is kept
            return None
        state = network_state(self._learner.net)
        last = {name: tensor.clone() for name, tensor in state.items()}
        copy_state(saved.tensors, state)
        ending = settle()
        if processes.is_first:
            write_checkpoint(file, replace(saved, tensors=saved.tensors | state))
        copy_state(last, state)
        final = best.model_copy(update={"final_accuracy": ending.mean_accuracy()})
        self.position = self.position.model_copy(update={"best": final})
        return ending

    def save_classifiers(self, classifiers: Mapping[str, LinearClassifier]) -> None:
        """Keep the classifiers of the frozen backbone."""
        write_classifiers(self._folder.frozen_features, classifiers)

    def save_ending(self, ending: Ending) -> None:
        """Write how the state that is kept has become."""
        if self._learner.processes.is_first:
            write_json(self._folder.ending, asdict(ending))

    def is_due(self) -> bool:
        """Return whether the last checkpoint is old enough for a new one, by the clock of the first process."""
        return (
            self._learner.processes.is_first and time.monotonic() - self._saved_at > self._training.checkpoint_seconds
        )

    def save(self) -> None:
        """Replace the last checkpoint, if the state is finite, and keep the one before; a damaged one is not kept."""
        self._check_state()
        keep = self._folder.previous if self._newest_is_whole else None
        save_checkpoint(self._folder.checkpoint, self._learner, self.position, self._identity, keep)
        self._newest_is_whole = True
        self._saved_at = time.monotonic()

    def _check_state(self) -> None:
        """Refuse to save a state that is not finite; a GPU is waited for once."""
        state = {name: tensor for name, tensor in self._learner.tensors().items() if tensor.is_floating_point()}
        finite = torch.stack([torch.isfinite(tensor).all() for tensor in state.values()]).tolist()
        lost = [name for name, is_finite in zip(state, finite, strict=True) if not is_finite]
        is_lost_somewhere = self._learner.processes.any([bool(lost)])[0]  # all ask, so none waits for one that fails
        if is_lost_somewhere and not lost:
            raise TrainingError(f"the state of another process is no longer finite at step {self.position.step}")
        if "tally" in lost:
            finite_D = torch.isfinite(self._learner.tally_D3).all(1).tolist()
            self._refuse_loss(self._learner.net.domains[finite_D.index(False)], self.position.step)
        if lost:
            raise TrainingError(f"{lost[0]} is no longer finite at step {self.position.step}; {self._advice()}")

    def _advice(self) -> str:
        file = self._folder.checkpoint
        saved = f"the last good state is in {file}" if file.exists() else "nothing was saved yet"
        return f"{saved}; try a smaller training.lr"

    def check(self, report: EpochReport) -> None:
        """Refuse to go on with a loss that is not a number."""
        lost = [name for name, domain in report.domains.items() if not math.isfinite(domain.loss)]
        if lost:
            self._refuse_loss(lost[0], report.step)

    def _refuse_loss(self, domain: str, step: int) -> NoReturn:
        raise TrainingError(f"the loss of domain {domain!r} is not a number at step {step}; {self._advice()}")

    def closing_words(self) -> list[str]:
        """Return what a user should know about a finished run: which epoch was kept, and what is wrong."""
        ending = self._folder.read_ending()
        kept = self._summary()
        return [*([kept] if kept else []), *(ending.findings if ending else ())]

    def _summary(self) -> str | None:
        """Return which epoch was kept and why training ended, if the recipe asks for the best or for an early end."""
        position = self.position
        best = position.best
        if self._training.keep == "last" and not position.stopped_early:
            return None
        if best is None:
            return (
                "no epoch was within the budget, so the last one is kept; "
                "train for more epochs, or set a larger training.switch_lr or budget"
            )
        ended = "training ended early; " if position.stopped_early else ""
        kept = "kept" if self._training.keep == "best" else "the best"
        accuracy = best.accuracy if best.final_accuracy is None else best.final_accuracy
        return f"{ended}epoch {best.epoch + 1} is {kept}, with a mean validation accuracy of {accuracy:.1%}"

    def how_to_continue(self) -> str:
        """Return the sentence for a user who interrupted the run."""
        position = self.position
        return (
            f"saved at step {position.step} of {position.total_steps}; "
            f"continue with: prunus.resume({str(self._folder.path)!r})"
        )
