"""From a bundle of floats to an 8-bit one that loses little accuracy."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.record import KEY, EightBitRecord, Measured
from prunus.evaluation.watching import Watch
from prunus.quantizing.calibration import calibrate
from prunus.quantizing.coder import make_coder
from prunus.quantizing.gate import Decision, Gate
from prunus.quantizing.images import Drawn
from prunus.quantizing.judging import Judge
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
    return _recorded(decision, images)


def _recorded(decision: Decision, images: Mapping[str, Drawn]) -> Bundle:
    rows = {
        domain: Measured(loss.images, loss.floats, loss.coded, loss.turned, images[domain].validation)
        for domain, loss in decision.losses.items()
    }
    record = EightBitRecord(calibration=max(len(drawn.calibration) for drawn in images.values()), accuracy=rows)
    manifest = decision.bundle.manifest
    provenance = manifest.provenance | {KEY: record.written()}
    return Bundle(manifest.model_copy(update={"provenance": provenance}), decision.bundle.arrays)
