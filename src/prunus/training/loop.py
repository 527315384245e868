"""The training loop, to be read from top to bottom."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice

import torch

from prunus.data.prefetch import choose_workers, prepare_steps
from prunus.data.schedule import Step, num_steps, schedule
from prunus.errors import TrainingInterrupted
from prunus.learning.arithmetic import arithmetic
from prunus.learning.captured import StepRunner
from prunus.learning.feed import DomainData, ResidentFeed, StepJob, drawing, make_feeds
from prunus.learning.learner import Learner
from prunus.learning.rates import rate_factor
from prunus.learning.scoring import count_correct
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
    feeds = make_feeds(data, device, recipe)
    runner = StepRunner(learner, feeds)
    reporter = Reporter(learner)
    is_light = isinstance(feeds[0], ResidentFeed)  # the host only draws numbers
    workers = choose_workers(recipe.training.workers, has_work=not is_light)
    observer.started(first, saver.position.total_steps)
    try:
        with (
            stop_on_signal() as stop,
            arithmetic(recipe.training, device),
            closing(prepare_steps((job for job, _, _ in remaining()), drawing(feeds), workers, runner.pinned)) as drawn,
        ):
            for (job, step, ends_epoch), inputs in zip(remaining(), drawn, strict=True):
                done = job.step
                torch.manual_seed(job.step_seed)  # any step can be repeated, also with dropout inside a backbone
                factor = rate_factor(recipe.training, step.epoch, step.progress)
                runner.run([domain for domain, _ in step.parts], inputs, factor)
                observer.stepped(done, step.epoch)
                saver.move_to(done)
                if ends_epoch:
                    report = reporter.read(step.epoch, done, validate(learner, data))
                    saver.check(report)
                    observer.epoch_ended(report)
                    learner.tally_D3.zero_()
                    saver.judge(report)
                elif done % STEPS_BETWEEN_REPORTS == 0:
                    reporter.request(step.epoch, done)
                if (progress := reporter.arrived()) is not None:
                    saver.check(progress)
                    observer.progressed(progress)
                stopping = stop.is_set  # read once: a signal may come at any time
                if saver.position.is_finished or stopping or saver.is_due():
                    saver.save()
                if saver.position.is_finished:
                    if summary := saver.summary():
                        observer.noted(summary)
                    break
                if stopping:
                    raise TrainingInterrupted(saver.how_to_continue())
    finally:
        observer.ended()


def validate(learner: Learner, data: Sequence[DomainData]) -> dict[str, float]:
    """Return the accuracy of every domain on its validation images, if it has any; a GPU is waited for once."""
    held_out = {domain.name: domain for domain in data if domain.validation is not None}
    learner.net.eval()
    with learner.autocast():
        counts = {
            name: count_correct(learner.net, name, domain.validation, domain.preprocess) / len(domain.validation)
            for name, domain in held_out.items()
            if domain.validation is not None
        }
    learner.net.train()
    return dict(zip(counts, torch.stack(list(counts.values())).tolist(), strict=True)) if counts else {}


def _mark_ends(steps: Iterator[Step]) -> Iterator[tuple[Step, bool]]:
    step = next(steps)
    for following in steps:
        yield step, following.epoch != step.epoch
        step = following
    yield step, True
