"""Measure how fast a model file runs, beside the dense network that it was."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.errors import DataError, PrunusError
from prunus.measure.machine import describe_machine, usable_processors
from prunus.measure.speed import Benchmark, Gain, Speed
from prunus.runtime.predictor import Predictor
from prunus.timing.turns import take_turns

PRUNUS, BAKED, ORT_DENSE, TORCH_DENSE = "Prunus", "ONNX baked", "ONNX dense", "PyTorch dense"
PAUSE = 0.003  # seconds: as long as idle threads of other runtimes spin

Run = Callable[[Floats], object]


def bench(
    model: str | Path,
    threads: Sequence[int] | None = None,
    domains: Sequence[str] = (),
    batch: int = 16,
    rounds: int = 50,
) -> Benchmark:
    """Time a model file: every domain, against the dense network in PyTorch and ONNX Runtime and its own ONNX exports.

    All engines take turns in one process. What is not installed is left out, and said.

    Args:
        threads: one, and as many as there are processors to use, unless given.
        domains: some of the model's; all, unless given.
        batch: images of one pass for throughput; latency is always that of one image.
    """
    if rounds < 1 or batch < 1:
        raise DataError(f"rounds and batch must be at least 1, got {rounds} and {batch}")
    predictor = Predictor(model)
    bundle = predictor.bundle
    chosen = list(domains) or list(bundle.domains)
    for domain in chosen:
        bundle.check_domain(domain)
    counts = dict.fromkeys(threads or [1, usable_processors()])
    rivals = _Rivals(bundle, chosen)
    speeds: list[Speed] = []
    for count in counts:
        runs = _runs(Path(model), count, chosen, rivals)
        with _torch_threads(count):
            speeds += _measure(runs, count, bundle.manifest.image_size, batch, rounds)
    return Benchmark(
        model=Path(model).name,
        backbone=bundle.manifest.backbone,
        image_size=bundle.manifest.image_size,
        batch=batch,
        machine=describe_machine(),
        prunus_engine=predictor.engine,
        versions=rivals.versions,
        speeds=tuple(speeds),
        gains=tuple(_gains(bundle, speeds)),
        missing=rivals.missing,
    )


def promised_speed_up(bundle: Bundle, domain: str) -> float:
    """Divide the multiply-accumulates of the network before pruning by those that a domain needs."""
    dense = used = 0
    for layer, conv in bundle.manifest.convs.items():
        cost = conv.kernel[0] * conv.kernel[1] * conv.positions
        dense += conv.dense_kernels * cost
        used += int(bundle.mask(domain, layer).sum()) * cost
    return dense / max(used, 1)


def _runs(model: Path, threads: int, domains: Sequence[str], rivals: _Rivals) -> dict[tuple[str, str | None], Run]:
    predictor = Predictor(model, threads)
    runs: dict[tuple[str, str | None], Run] = {(PRUNUS, each): _ours(predictor, each) for each in domains}
    return runs | rivals.runs(threads)


def _ours(predictor: Predictor, domain: str) -> Run:
    return lambda images: predictor.logits(images, domain)


def _measure(runs: dict[tuple[str, str | None], Run], threads: int, size: int, batch: int, rounds: int) -> list[Speed]:
    generator = np.random.default_rng(0)
    one, many = (generator.standard_normal((count, 3, size, size)).astype(np.float32) for count in (1, batch))
    pause = PAUSE if threads > 1 else 0.0
    latency = take_turns({key: _bound(run, one) for key, run in runs.items()}, rounds, pause)
    passes = take_turns({key: _bound(run, many) for key, run in runs.items()}, max(3, rounds // 10), pause)
    return [
        Speed(
            engine=engine,
            threads=threads,
            domain=domain,
            latency=latency[engine, domain],
            images_per_second=1000 * batch / passes[engine, domain].median_ms,
        )
        for engine, domain in runs
    ]


def _bound(run: Run, images: Floats) -> Callable[[], object]:
    return lambda: run(images)


def _gains(bundle: Bundle, speeds: Sequence[Speed]) -> list[Gain]:
    dense = {each.threads: each.latency.median_ms for each in speeds if each.engine == ORT_DENSE}
    found = []
    for each in speeds:
        if each.engine == PRUNUS and each.domain and each.threads in dense:
            promised = promised_speed_up(bundle, each.domain)
            speed_up = dense[each.threads] / each.latency.median_ms
            found.append(
                Gain(
                    domain=each.domain,
                    threads=each.threads,
                    promised=promised,
                    speed_up=speed_up,
                    realised=speed_up / promised,
                )
            )
    return found


class _Rivals:
    """The other engines, as far as their packages are installed."""

    def __init__(self, bundle: Bundle, domains: Sequence[str]) -> None:
        self.missing: dict[str, str] = {}
        self.versions: dict[str, str] = {"numpy": np.__version__}
        self._models: dict[tuple[str, str | None], bytes] = {}
        self._torch: Any = None
        self._bundle = bundle
        self._try(BAKED, lambda: self._bake(domains))
        self._try(TORCH_DENSE, self._build)
        self._try(ORT_DENSE, self._export_dense)

    def runs(self, threads: int) -> dict[tuple[str, str | None], Run]:
        """Give what can be run with so many threads."""
        found = {key: _session(model, threads) for key, model in self._models.items()}
        if self._torch is not None:
            found[TORCH_DENSE, None] = _torch_run(self._torch)
        return found

    def _try(self, engine: str, prepare: Callable[[], None]) -> None:
        try:
            prepare()
        except (ImportError, PrunusError) as error:
            self.missing[engine] = str(error)

    def _bake(self, domains: Sequence[str]) -> None:
        import onnx  # noqa: PLC0415  # optional, as all that follows
        import onnxruntime  # noqa: PLC0415

        from prunus.onnx.model import domain_model  # noqa: PLC0415

        self.versions["onnxruntime"] = onnxruntime.__version__
        for domain in domains:
            self._models[BAKED, domain] = domain_model(onnx, self._bundle, domain).SerializeToString()

    def _build(self) -> None:
        import torch  # noqa: PLC0415

        from prunus.verbs.dense import dense_network  # noqa: PLC0415

        self.versions["torch"] = torch.__version__
        self._torch = dense_network(self._bundle.manifest)

    def _export_dense(self) -> None:
        import onnx  # noqa: PLC0415
        import onnxruntime  # noqa: PLC0415, F401

        from prunus.onnx.model import domain_model  # noqa: PLC0415
        from prunus.verbs.dense import DOMAIN, dense_bundle  # noqa: PLC0415

        dense = dense_bundle(self._bundle.manifest)
        self._models[ORT_DENSE, None] = domain_model(onnx, dense, DOMAIN).SerializeToString()


def _session(model: bytes, threads: int) -> Run:
    import onnxruntime  # noqa: PLC0415

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda images: session.run(None, {"images": images})


def _torch_run(network: Any) -> Run:  # noqa: ANN401  # torch is optional here
    import torch  # noqa: PLC0415

    def run(images: Floats) -> object:
        with torch.inference_mode():
            return network(torch.from_numpy(images))

    return run


@contextmanager
def _torch_threads(count: int) -> Iterator[None]:
    """Let torch, where it is loaded, compute with so many threads; the number holds for the whole process."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
