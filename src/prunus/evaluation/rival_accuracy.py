"""The accuracy of other engines on the images of a model file, and images from which they learn ranges of numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from prunus.arrays import Floats
from prunus.data.cache import default_cache
from prunus.data.layouts import open_domain
from prunus.data.loading import load_images
from prunus.evaluation.classifying import Answers, classify_measurable, locate
from prunus.evaluation.subject import Subject
from prunus.evaluation.watching import decoding
from prunus.images import crop_windows
from prunus.probabilities import Logits, crop_probabilities

NUM_IMAGES = 100  # per domain
Engines = dict[tuple[str, str], Logits]  # (name, domain) -> a function from prepared images to logits


def training_images(
    subject: Subject, domains: Sequence[str], data: str | Path | None, count: int = NUM_IMAGES
) -> dict[str, Floats]:
    """Return some training images of every domain, evenly spread over the split and prepared for the network."""
    found: dict[str, Floats] = {}
    for choice in subject.recipe.domains:
        if choice.name not in domains:
            continue
        preprocess = subject.domains[choice.name].preprocess
        domain = open_domain(locate(choice, data), subject.recipe.training.validation_share)
        stored = load_images(
            domain, "train", preprocess, subject.recipe.skip_bad_images, default_cache(), decoding()
        ).images
        places = np.unique(np.linspace(0, len(stored) - 1, count).round().astype(np.int64))
        centre = crop_windows(preprocess.resize, preprocess.size, 1)[0]
        found[choice.name] = preprocess.normalize(preprocess.crop(stored[places], *centre))
    return found


def engine_accuracies(subject: Subject, engines: Engines, data: str | Path | None) -> dict[tuple[str, str], float]:
    """Classify the test images of each domain with each engine; domains without labelled ones are left out."""
    accuracies: dict[tuple[str, str], float] = {}
    for name in dict.fromkeys(name for name, _ in engines):
        logits = {domain: each for (engine, domain), each in engines.items() if engine == name}
        for answers in classify_measurable(in_place_of(subject, logits), "test", data):
            if isinstance(answers, Answers):
                accuracies[name, answers.domain] = answers.accuracy()
    return accuracies


def in_place_of(subject: Subject, logits: Mapping[str, Logits]) -> Subject:
    """Return the subject as another engine computes it, with only the domains that the engine has."""
    choices = tuple(choice for choice in subject.recipe.domains if choice.name in logits)
    recipe = subject.recipe.model_copy(update={"domains": choices})
    return replace(subject, recipe=recipe, classifier=lambda domain: partial(crop_probabilities, logits[domain]))
