"""The result of `prunus bench`: how fast a model file runs beside the dense network."""

from pydantic import Field

from prunus.measure.result import Amount, Result, Share


class Timing(Result):
    """How long one pass takes."""

    median_ms: Amount
    p95_ms: Amount


class Speed(Result):
    """One engine with one number of threads; dense networks have no domain.

    Args:
        latency: of one image.
        images_per_second: in batches.
    """

    engine: str
    threads: int
    domain: str | None
    latency: Timing
    images_per_second: Amount


class Gain(Result):
    """How much faster a domain is than the dense network in ONNX Runtime, one image at a time.

    Args:
        promised: MACs of the dense network / MACs of the domain.
        realised: speed_up / promised.
    """

    domain: str
    threads: int
    promised: Share
    speed_up: Amount
    realised: Share


class Benchmark(Result):
    """All timings of one model file; fields with a default are missing in files of earlier versions.

    Args:
        prunus_engine: the instruction set that Prunus used, or numpy.
        missing: engine -> why it was not timed.
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
