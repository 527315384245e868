"""Measure what is shipped: answers to the images of a split, bytes, and times in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from prunus.alternatives.alternative import Answering, Shipped
from prunus.config import MODEL_SUFFIX
from prunus.evaluation.classifying import Answers, classify_measurable
from prunus.evaluation.rival_accuracy import in_place_of
from prunus.evaluation.subject import Subject
from prunus.measure.result import Result
from prunus.measure.speed import Timing
from prunus.runtime.predictor import Predictor
from prunus.timing.machine import usable_processors
from prunus.timing.rivals import random_images
from prunus.timing.sessions import Run, onnx_run
from prunus.timing.speeds import take_turns
from prunus.timing.watching import counting


class Measured(Result):
    """What an alternative answers to the images of a split, by domain: a 1 for a correct answer, a 0 for another."""

    split: str
    correct: dict[str, str]

    @property
    def accuracies(self) -> dict[str, float]:
        """Return the share of correct answers by domain."""
        return {domain: answers.count("1") / len(answers) for domain, answers in self.correct.items()}

    @property
    def images(self) -> dict[str, int]:
        """Return the number of images by domain."""
        return {domain: len(answers) for domain, answers in self.correct.items()}


Key = tuple[str, int, str]  # row, seed, domain


def measure_answers(subject: Subject, runs: Mapping[str, Run], split: str, use_cache: bool) -> Measured:
    """Classify the images of a split; domains without labelled ones are left out."""
    correct = {
        answers.domain: "".join("01"[int(right)] for right in answers.labels == answers.images.labels)
        for answers in classify_measurable(in_place_of(subject, runs), split, use_cache=use_cache)
        if isinstance(answers, Answers)
    }
    return Measured(split=split, correct=correct)


def load_runs(folder: Path, shipped: Shipped, threads: int | None = None) -> dict[str, Run]:
    """Load what answers for every domain, each file once; with all processors unless told."""
    count = threads or usable_processors()
    predictors: dict[str, Predictor] = {}

    def load(domain: str, answering: Answering) -> Run:
        path = folder / answering.file
        if path.suffix != MODEL_SUFFIX:
            return onnx_run(path.read_bytes(), count, answering.output)
        predictor = predictors.setdefault(answering.file, Predictor(path, count))
        return partial(predictor.logits, domain=domain)

    return {domain: load(domain, answering) for domain, answering in shipped.answering.items()}


def total_bytes(folder: Path, shipped: Shipped) -> int:
    """Count the bytes of the files that are shipped."""
    return sum((folder / file).stat().st_size for file in shipped.counted)


def time_runs(runs: Mapping[Key, Run], size: int, rounds: int) -> dict[Key, Timing]:
    """Time one image with one thread, all runs in turns."""
    image = random_images(1, size)
    passes: dict[Key, Callable[[], object]] = {key: partial(run, image) for key, run in runs.items()}
    return take_turns(passes, rounds, on_round=counting(1, rounds))
