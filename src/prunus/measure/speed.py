"""The result of `prunus bench`: how fast a model file runs beside the dense network."""

from collections.abc import Iterable

from pydantic import Field

from prunus.measure.result import Amount, Result, Share

ONNX_DENSE = "ONNX dense"
TITLES = {"onnxruntime_int8": "ONNX int8", "openvino_int8": "OpenVINO int8", "openvino_bf16": "OpenVINO bf16"}


def engine_title(engine: str) -> str:
    """Return how tables and plots name an engine."""
    return TITLES.get(engine, engine)


class Timing(Result):
    """How long one pass takes."""

    median_ms: Amount
    p95_ms: Amount


class Speed(Result):
    """One engine with one number of threads; dense networks have no domain.

    Args:
        latency: of one image.
        images_per_second: in batches.
        accuracy: on the domain's test images, if there were any.
    """

    engine: str
    threads: int
    domain: str | None
    latency: Timing
    images_per_second: Amount
    accuracy: Share | None = None


def mean_accuracies(speeds: Iterable[Speed]) -> dict[str, float]:
    """Return the mean over the domains of every engine whose accuracy is known."""
    known: dict[str, list[float]] = {}
    for speed in speeds:
        if speed.accuracy is not None:
            known.setdefault(speed.engine, []).append(speed.accuracy)
    return {engine: sum(values) / len(values) for engine, values in known.items()}


class Gain(Result):
    """How much faster a domain is than the dense network in ONNX Runtime, one image at a time.

    Args:
        promised: MACs of the dense network / MACs of the domain; None if the dense network has 8 bits, since engines
            of 8 bits take other times for the same MACs.
        realised: speed_up / promised.
        over: the engine of the dense network, which has 8 bits if the file has.
    """

    domain: str
    threads: int
    promised: Share | None = None
    speed_up: Amount
    realised: Share | None = None
    over: str = ONNX_DENSE


class Benchmark(Result):
    """All timings of one model file; fields with a default are missing in files of earlier versions.

    Args:
        prunus_engine: the instruction set that Prunus used, or numpy.
        missing: engine -> why it was not timed.
        unmeasured: why no accuracy was measured.
    """

    model: str
    backbone: str | None = None
    image_size: int | None = None
    batch: int
    machine: str
    prunus_engine: str | None = None
    versions: dict[str, str]
    speeds: tuple[Speed, ...] = Field(min_length=1)
    gains: tuple[Gain, ...] = ()
    missing: dict[str, str] = Field(default_factory=dict)
    unmeasured: str | None = None
