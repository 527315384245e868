"""The training loop, to be read from top to bottom."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice

import torch

from prunus.data.prefetch import choose_workers, prepare_steps
from prunus.data.schedule import Step, num_steps, schedule
from prunus.errors import TrainingInterrupted
from prunus.learning.arithmetic import arithmetic
from prunus.learning.captured import StepRunner
from prunus.learning.feed import DomainData, Inputs, StepJob, drawing, make_feeds
from prunus.learning.learner import Learner
from prunus.learning.rates import rate_factor
from prunus.learning.scoring import count_correct
from prunus.parallel.processes import Processes
from prunus.training.checkpoint import Checkpoint
from prunus.training.interrupt import stop_on_signal
from prunus.training.observers import Observer
from prunus.training.reports import Reporter
from prunus.training.saving import Saver

STEPS_BETWEEN_REPORTS = 20


def fit(
    learner: Learner, data: Sequence[DomainData], saver: Saver, observer: Observer, start: Checkpoint | None = None
) -> None:
    """Train to the end of the recipe, from the beginning or from a checkpoint, and save regularly."""
    recipe = learner.recipe
    strategy = "individual" if learner.chosen.method.individual else recipe.training.strategy
    sizes = [len(domain.train) for domain in data]
    plan = (strategy, sizes, recipe.training.batch_size, recipe.training.epochs)
    saver.begin(num_steps(*plan), start)
    first = saver.position.step
    last = first if saver.position.is_finished else None

    def remaining() -> Iterator[tuple[StepJob, Step, bool]]:
        steps = islice(_mark_ends(schedule(*plan, recipe.seed)), first, last)
        for number, (step, ends_epoch) in enumerate(steps, first + 1):
            yield StepJob(recipe.seed, number, step.parts), step, ends_epoch

    device = learner.net.device
    processes = learner.processes
    runner, draw_all = _prepare(learner, data)
    reporter = Reporter(learner)
    observer.started(first, saver.position.total_steps)
    try:
        with (
            stop_on_signal(is_patient=processes.world > 1) as stop,
            arithmetic(recipe.training, device),
            closing(draw_all(job for job, _, _ in remaining())) as drawn,
        ):
            for (job, step, ends_epoch), inputs in zip(remaining(), drawn, strict=True):
                done = job.step
                # any step can be repeated, also with dropout inside a backbone, which differs between processes
                torch.manual_seed(job.step_seed + processes.rank)
                factor = rate_factor(recipe.training, step.epoch, step.progress)
                runner.run([(domain, len(indices)) for domain, indices in step.parts], inputs, factor)
                observer.stepped(done, step.epoch)
                saver.move_to(done)
                if ends_epoch:
                    report = reporter.read(step.epoch, done, validate(learner, data))
                    saver.check(report)
                    observer.epoch_ended(report)
                    learner.tally_D3.zero_()
                    processes.broadcast_(list(learner.tensors().values()))  # machines may round differently
                    saver.judge(report)
                elif done % STEPS_BETWEEN_REPORTS == 0:
                    reporter.request(step.epoch, done)
                if (progress := reporter.arrived()) is not None:
                    saver.check(progress)
                    observer.progressed(progress)
                stopping, is_due = _agree(processes, done, [stop.is_set, saver.is_due()])
                if saver.position.is_finished or stopping or is_due:
                    saver.save()
                if saver.position.is_finished:
                    if summary := saver.summary():
                        observer.noted(summary)
                    break
                if stopping:
                    raise TrainingInterrupted(saver.how_to_continue())
    finally:
        observer.ended()


def _prepare(
    learner: Learner, data: Sequence[DomainData]
) -> tuple[StepRunner, Callable[[Iterable[StepJob]], Generator[tuple[Inputs, ...], None, None]]]:
    """Return what runs steps, and a function that draws this process's share of their inputs."""
    feeds = make_feeds(data, learner.net.device, learner.recipe)
    runner = StepRunner(learner, feeds)
    training = learner.recipe.training
    workers = choose_workers(training.workers, bool(training.augment), learner.processes.on_node)
    draw = drawing(feeds, learner.shares)
    return runner, lambda jobs: prepare_steps(jobs, draw, workers, runner.pinned)


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
