"""From a bundle of floats to an 8-bit one that loses little accuracy."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.record import KEY, EightBitRecord
from prunus.evaluation.watching import Watch
from prunus.quantizing.coding import make_coder
from prunus.quantizing.codings import calibrate
from prunus.quantizing.gate import Gate
from prunus.quantizing.images import Drawn
from prunus.quantizing.judging import Judge, Losses
from prunus.quantizing.ranges import RangeRule
from prunus.quantizing.weights import WeightRule


@dataclass(frozen=True)
class Settings:
    """The rules that choose codings; benchmarks/int8_accuracy.py compares them.

    Args:
        most_bytes: that the file may have; layers stay wide only as far as there is room.
    """

    ranges: RangeRule = "mse"
    weights: WeightRule = "largest"
    threads: int = 1
    most_bytes: int | None = None


def quantize(bundle: Bundle, images: Mapping[str, Drawn], settings: Settings, watch: Watch) -> Bundle:
    """Return the 8-bit bundle of a bundle of floats, whose provenance records what it loses on held-out images."""
    drawn = {domain: images_of.calibration for domain, images_of in images.items()}
    calibration = calibrate(bundle, drawn, settings.ranges, partial(watch, "calibrating"))
    coder = make_coder(bundle, calibration, settings.weights)
    judge = Judge(bundle, images, settings.threads, partial(watch, "measuring 8 bits of"))
    watches = partial(watch, "ranking"), drawn, partial(watch, "correcting")
    decision = Gate(coder, judge, settings.most_bytes, *watches).decide()
    count = max(len(drawn.calibration) for drawn in images.values())
    return _recorded(decision.bundle, count, decision.losses)


def _recorded(bundle: Bundle, calibration: int, losses: Losses) -> Bundle:
    accuracy = {domain: (loss.images, loss.floats, loss.coded) for domain, loss in losses.items()}
    record = EightBitRecord(calibration=calibration, accuracy=accuracy)
    provenance = bundle.manifest.provenance | {KEY: record.written()}
    return Bundle(bundle.manifest.model_copy(update={"provenance": provenance}), bundle.arrays)
