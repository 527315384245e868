"""The training loop, to be read from top to bottom."""

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from prunus.arrays import Floats
from prunus.data.schedule import Step, num_steps, schedule
from prunus.errors import TrainingError, TrainingInterrupted
from prunus.masks.network import MultiDomainNet
from prunus.measure.accuracy import accuracy
from prunus.probabilities import Logits
from prunus.run_folder import DomainProgress, EpochReport
from prunus.training.captured import StepRunner
from prunus.training.checkpoint import Checkpoint, Identity, save_checkpoint
from prunus.training.feed import DomainData, make_feeds
from prunus.training.interrupt import stop_on_signal
from prunus.training.learner import Learner
from prunus.training.observers import Observer

STEPS_BETWEEN_REPORTS = 20  # reading a loss makes a GPU wait


def fit(
    learner: Learner,
    data: Sequence[DomainData],
    file: Path,
    identity: Identity,
    observer: Observer,
    start: Checkpoint | None = None,
) -> None:
    """Train to the end of the recipe, from the beginning or from a checkpoint, and save to `file` regularly."""
    training = learner.recipe.training
    seed = learner.recipe.seed
    strategy = "individual" if learner.chosen.method.individual else training.strategy
    plan = (strategy, [len(domain.train) for domain in data], training.batch_size, training.epochs)
    total = num_steps(*plan)
    first = start.step if start else 0
    if start:
        learner.restore(start.tensors)
    feeds = make_feeds(data, learner.net.device)
    runner = StepRunner(learner, feeds)
    saved_at = time.monotonic()
    observer.started(first, total)
    try:
        with stop_on_signal() as stop, torch.random.fork_rng(_cuda_devices(learner)):
            for done, (step, ends_epoch) in enumerate(
                islice(_mark_ends(schedule(*plan, seed)), first, None), first + 1
            ):
                # a seed per step, also for dropout inside a backbone, makes any step repeatable
                generator = torch.manual_seed(_step_seed(seed, done))
                parts = [(domain, feeds[domain].draw(indices, generator)) for domain, indices in step.parts]
                runner.run(parts, learner.rate_factor(step.epoch))
                observer.stepped(done, step.epoch)
                if ends_epoch or done % STEPS_BETWEEN_REPORTS == 0:
                    _check_losses(learner, done, file)
                    report = _report(learner, data, step.epoch, done, validate=ends_epoch)
                    (observer.epoch_ended if ends_epoch else observer.progressed)(report)
                if ends_epoch:
                    learner.tally_D3.zero_()
                stopping = stop.is_set  # read once: a signal may come at any time
                if done == total or stopping or time.monotonic() - saved_at > training.checkpoint_seconds:
                    _check_losses(learner, done, file)
                    _check_state(learner, done, file)
                    save_checkpoint(file, learner, done, total, identity)
                    saved_at = time.monotonic()
                if stopping and done < total:
                    raise TrainingInterrupted(
                        f"saved at step {done} of {total}; continue with: prunus train --resume {file.parent}"
                    )
    finally:
        observer.ended()


def net_logits(net: MultiDomainNet, domain: str) -> Logits:
    """Return a function that computes the logits of arrays of images, for measuring."""

    @torch.inference_mode()
    def compute(images: Floats) -> Floats:
        logits: Floats = net(torch.from_numpy(images).to(net.device), domain).cpu().numpy()
        return logits

    return compute


def _mark_ends(steps: Iterator[Step]) -> Iterator[tuple[Step, bool]]:
    step = next(steps)
    for following in steps:
        yield step, following.epoch != step.epoch
        step = following
    yield step, True


def _step_seed(seed: int, step: int) -> int:
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _check_losses(learner: Learner, step: int, file: Path) -> None:
    finite_D = torch.isfinite(learner.tally_D3).all(1).tolist()
    bad = [name for name, finite in zip(learner.net.domains, finite_D, strict=True) if not finite]
    if bad:
        raise TrainingError(f"the loss of domain {bad[0]!r} is not a number at step {step}; {_advice(file)}")


def _check_state(learner: Learner, step: int, file: Path) -> None:
    for name, tensor in learner.tensors().items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise TrainingError(f"{name} is no longer finite at step {step}; {_advice(file)}")


def _advice(file: Path) -> str:
    saved = f"the last good state is in {file}" if file.exists() else "nothing was saved yet"
    return f"{saved}; try a smaller training.lr"


def _cuda_devices(learner: Learner) -> list[torch.device]:
    return [learner.net.device] if learner.net.device.type == "cuda" else []


def _report(learner: Learner, data: Sequence[DomainData], epoch: int, step: int, validate: bool) -> EpochReport:
    net = learner.net.eval()
    mask_DK = net.switches.kernel_masks() if net.switches else torch.ones(len(data), 1, dtype=torch.bool)
    progress = {}
    for index, domain in enumerate(data):
        loss, correct, seen = learner.tally_D3[index].tolist()
        if seen == 0:
            continue  # the strategy may train domains one after the other
        held_out = None
        if validate and domain.validation is not None:
            held_out = accuracy(net_logits(net, domain.name), domain.validation, domain.preprocess)
        progress[domain.name] = DomainProgress(
            loss / seen,
            correct / seen,
            held_out,
            float(mask_DK[index].float().mean()),
            float(learner.budget_multiplier_D[index]),
        )
    net.train()
    union = float(mask_DK.any(0).float().mean())
    intersection = float(mask_DK.all(0).float().mean())
    return EpochReport(epoch, step, progress, union, intersection, float(learner.sharing_multiplier))
