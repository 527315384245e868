"""How far a measurement is, for those who wait for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial

from prunus.arrays import Bytes, Floats
from prunus.images import Preprocess
from prunus.probabilities import Classifier

Watch = Callable[[str, str, int, int], None]  # what is being done, the domain, images done, all of them


def _unwatched(doing: str, domain: str, done: int, total: int) -> None:
    pass


_WATCH: ContextVar[Watch] = ContextVar("watch", default=_unwatched)


@contextmanager
def watched_by(watch: Watch) -> Iterator[None]:
    """Call `watch` while a measurement inside this block proceeds."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def watching() -> Watch:
    """Return what to call while something is measured."""
    return _WATCH.get()


def decoding() -> Callable[[str, int, int], None]:
    """Return what to call while the images of a domain are decoded."""
    return partial(_WATCH.get(), "decoding")


def classifying(classifier: Classifier, domain: str, total: int) -> Classifier:
    """Return a classifier that says after every batch how many images of a domain are done."""
    watch = _WATCH.get()
    done = 0

    def watched(images: Bytes, preprocess: Preprocess, crops: int) -> Floats:
        nonlocal done
        answers = classifier(images, preprocess, crops)
        done += len(images)
        watch("classifying", domain, done, total)
        return answers

    return watched
