"""The training loop, to be read from top to bottom."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import torch

from prunus.budgets.growth import GrowthKeeper
from prunus.budgets.keeper import Keeper
from prunus.checkpoints.checkpoint import Checkpoint, Position
from prunus.config import Strategy
from prunus.data.prefetch import choose_workers, prepare_steps
from prunus.data.schedule import Step, num_steps, schedule
from prunus.errors import TrainingError, TrainingInterrupted
from prunus.learning.arithmetic import arithmetic
from prunus.learning.captured import StepRunner
from prunus.learning.exits import choose_exits
from prunus.learning.feed import DomainData, Feed, Inputs, StepJob, drawing, make_feeds
from prunus.learning.frozen_features import fit_frozen_features, frozen_accuracies
from prunus.learning.learner import Learner
from prunus.learning.norms import renew_norms
from prunus.learning.rates import rate_factor
from prunus.learning.scoring import count_correct
from prunus.parallel.processes import Processes
from prunus.run_folder import Ending
from prunus.training.interrupt import stop_on_signal
from prunus.training.observers import Observer
from prunus.training.reporting.findings import over_limits
from prunus.training.reporting.reports import Reporter, as_it_ended, describe_ending
from prunus.training.saving import Saver

STEPS_BETWEEN_REPORTS = 20
MOST_ATTEMPTS = 3  # to end within the limits
UNEXPECTED = "this should not happen: please report it with the recipe, and set a slightly smaller budget meanwhile"


@dataclass(frozen=True)
class _Run:
    """Everyone who takes part in a run."""

    learner: Learner
    data: Sequence[DomainData]
    feeds: Sequence[Feed]
    saver: Saver
    observer: Observer
    reporter: Reporter
    keeper: Keeper | GrowthKeeper | None

    @property
    def workers(self) -> int:
        """The number of processes that prepare images."""
        training = self.learner.recipe.training
        return choose_workers(training.workers, bool(training.augment), self.learner.processes.on_node)


def fit(
    learner: Learner,
    data: Sequence[DomainData],
    saver: Saver,
    observer: Observer,
    start: Checkpoint | None = None,
    keeper: Keeper | GrowthKeeper | None = None,
) -> None:
    """Train to the end of the recipe, from the beginning or from a checkpoint, and save regularly."""
    recipe = learner.recipe
    processes = learner.processes
    plan = _plan(learner, data)
    _begin(saver, plan, observer, start)
    position = saver.position
    remaining = partial(_remaining, plan, recipe.seed, position)
    reporter = Reporter(learner)
    run = _Run(learner, data, make_feeds(data, learner.net.device, recipe), saver, observer, reporter, keeper)
    runner, draw_all = _prepare(run)
    observer.started(position.step, position.total_steps)
    try:
        with (
            stop_on_signal(is_patient=processes.world > 1) as stop,
            arithmetic(recipe.training, learner.net.device),
            closing(draw_all(job for job, _, _ in remaining())) as drawn,  # ahead of the steps, by workers
        ):
            for (job, step, ends_epoch), inputs in zip(remaining(), drawn, strict=True):
                # any step can be repeated, also with dropout inside a backbone, which differs between processes
                torch.manual_seed(job.step_seed + processes.rank)
                factor = rate_factor(recipe.training, step.position)
                if keeper and keeper.advance(job.step, step.position / recipe.training.num_epochs):
                    for message in (f"the model now has its final size: {keeper.summary()}", *keeper.emptied()):
                        observer.noted(message)
                learner.move_to(step.position)
                runner.run([(domain, len(indices)) for domain, indices in step.parts], inputs, factor)
                observer.stepped(job.step, step.epoch)
                saver.move_to(job.step)
                if ends_epoch:
                    _end_epoch(run, step.epoch)
                elif job.step % STEPS_BETWEEN_REPORTS == 0:
                    reporter.request(step.epoch, job.step)
                if (report := reporter.arrived()) is not None:
                    saver.check(report)
                    observer.progressed(report)
                stopping, is_due = _agree(processes, job.step, [stop.is_set, saver.is_due()])
                if saver.position.is_finished or stopping or is_due:
                    saver.save()
                if saver.position.is_finished:
                    break
                if stopping:
                    raise TrainingInterrupted(saver.how_to_continue())
        for message in saver.closing_words():
            observer.noted(message)
    finally:
        observer.ended()


def _plan(learner: Learner, data: Sequence[DomainData]) -> tuple[Strategy, list[int], int, int]:
    training = learner.recipe.training
    strategy = "individual" if learner.chosen.method.individual else training.strategy
    return strategy, [len(domain.train) for domain in data], training.batch_size, training.num_epochs


def _begin(
    saver: Saver, plan: tuple[Strategy, list[int], int, int], observer: Observer, start: Checkpoint | None
) -> None:
    """Begin a run, or continue one after checking what it left."""
    if start:
        _check_length(start, plan)
    saver.begin(num_steps(*plan), start)
    if damage := saver.forget_damaged_best():
        observer.noted(damage)


def _check_length(start: Checkpoint, plan: tuple[Strategy, list[int], int, int]) -> None:
    """Refuse a checkpoint of a run that is longer or shorter than its own recipe makes it."""
    strategy, sizes, batch_size, _ = plan
    expected = num_steps(strategy, sizes, batch_size, start.identity.recipe.training.num_epochs)
    if start.position.total_steps != expected:
        raise TrainingError(
            f"the checkpoint counts {start.position.total_steps} steps in all, but its recipe and images make "
            f"{expected}; its header was changed: restore it, or start a new run"
        )


def _remaining(
    plan: tuple[Strategy, list[int], int, int], seed: int, position: Position
) -> Iterator[tuple[StepJob, Step, bool]]:
    """Yield the steps that are left, and whether an epoch ends with them."""
    last = position.step if position.is_finished else None
    steps = islice(_mark_ends(schedule(*plan, seed)), position.step, last)
    for number, (step, ends_epoch) in enumerate(steps, position.step + 1):
        yield StepJob(seed, number, step.parts), step, ends_epoch


def _end_epoch(run: _Run, epoch: int) -> None:
    """Validate, report, and decide whether the epoch is the best one or the last one."""
    learner, saver = run.learner, run.saver
    # machines may round differently: from here on all have the state of the first, and decide alike
    learner.synchronize()
    report = run.reporter.read(epoch, saver.position.step, validate(learner, run.data))
    saver.check(report)
    saver.judge(report, within_limits=_is_within_limits(run))
    if saver.position.is_finished:
        ending = _finish(run)
        final = as_it_ended(run.reporter.read(epoch, saver.position.step, {}), ending)
        report = replace(final, images_per_second=report.images_per_second)
    run.observer.epoch_ended(report)
    learner.tally_D3.zero_()


def _is_within_limits(run: _Run) -> bool | None:
    """Return whether an epoch may be the best one; None if that depends on the usage of the domains."""
    learner = run.learner
    if learner.recipe.training.quantize and not learner.is_rounding:
        return False  # a model file of integers would lose more than those that follow
    return run.keeper.is_final() if run.keeper else None


def _finish(run: _Run) -> Ending:
    """Bring the best state and the last one into their final form; return how the last one has become."""
    frozen = _measure_frozen_features(run)
    best = run.saver.settle_best(partial(_settle, run, frozen))
    last = _settle(run, frozen)
    run.saver.save_ending(best or last)
    return last


def _settle(run: _Run, frozen: Mapping[str, float]) -> Ending:
    """Do with the current state what follows the last step, and describe the result."""
    _renew_norms(run)
    if problem := choose_exits(run.learner, run.data):
        run.observer.noted(problem)
    accuracies = validate(run.learner, run.data)
    ending = describe_ending(run.learner, run.data, run.saver.position.step, accuracies, frozen)
    if run.keeper is None:
        return ending
    over = over_limits(run.keeper.limits.lines(run.keeper.usage()), UNEXPECTED)
    return replace(ending, findings=(*ending.findings, *over))


def _renew_norms(run: _Run) -> None:
    """Bring the masks to their final form and estimate the norms again; this may change a size, so repeat it if so."""
    if run.keeper:
        run.keeper.finish()
    for _ in range(MOST_ATTEMPTS):
        renew_norms(run.learner, run.feeds, [len(domain.train) for domain in run.data], run.workers)
        if run.keeper is None or not run.keeper.finish():
            return


def _measure_frozen_features(run: _Run) -> dict[str, float]:
    """Keep linear classifiers on the backbone's features and return their validation accuracies."""
    learner = run.learner
    choice = learner.recipe.backbone
    is_pretrained = choice.weights != "random" and not choice.is_model_file  # whose norms belong to its domains
    if not is_pretrained or not learner.processes.is_first:  # which is the only one that reports
        return {}
    classifiers = fit_frozen_features(learner.net, run.data, run.saver.known)
    run.saver.save_classifiers(classifiers)
    return frozen_accuracies(learner.net, run.data, classifiers)


def _prepare(
    run: _Run,
) -> tuple[StepRunner, Callable[[Iterable[StepJob]], Generator[tuple[Inputs, ...], None, None]]]:
    """Return what runs steps, and a function that draws this process's share of their inputs."""
    runner = StepRunner(run.learner, run.feeds, run.observer.noted)
    draw = drawing(run.feeds, run.learner.portions)
    return runner, lambda jobs: prepare_steps(jobs, draw, run.workers, runner.pinned)


def _agree(processes: Processes, step: int, wishes: Sequence[bool]) -> list[bool]:
    """Return which wishes, to stop or to save, any of the processes has; several GPUs are rarely waited for."""
    if processes.world > 1 and processes.device.type == "cuda" and step % STEPS_BETWEEN_REPORTS:
        return [False] * len(wishes)
    return processes.any(wishes)


def validate(learner: Learner, data: Sequence[DomainData]) -> dict[str, float]:
    """Return the accuracy of every domain on its validation images, if it has any; a GPU is waited for once."""
    held_out = {domain.name: domain for domain in data if domain.validation is not None}
    if not held_out:
        return {}
    learner.net.eval()
    with learner.autocast():
        counts = torch.stack(
            [
                count_correct(learner.net, name, images, domain.preprocess, learner.processes.rows(len(images)))
                for name, domain in held_out.items()
                if (images := domain.validation) is not None
            ]
        )
    learner.net.train()
    learner.processes.sum_([counts])
    sizes = [len(domain.validation) for domain in held_out.values() if domain.validation is not None]
    return {name: count / size for name, count, size in zip(held_out, counts.tolist(), sizes, strict=True)}


def _mark_ends(steps: Iterator[Step]) -> Iterator[tuple[Step, bool]]:
    step = next(steps)
    for following in steps:
        yield step, following.epoch != step.epoch
        step = following
    yield step, True
