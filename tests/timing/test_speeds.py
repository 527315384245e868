"""What a domain gains over the dense network, beside what its MACs promise."""

import time
from pathlib import Path

import pytest

from prunus.bundle.file import write_bundle
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.cost import CostReport, DomainCost, LayerCost
from prunus.measure.speed import Gain, Speed, Timing
from prunus.timing.rivals import Rivals
from prunus.timing.speeds import WARM_UP, compare_with_dense, measure_speeds, promised_speed_up, take_turns
from prunus.timing.watching import rounds_watched_by
from tests.makers.graph_bundles import random_bundle, varied_graph


def test_the_promise_is_the_share_of_multiply_accumulates() -> None:
    bundle = random_bundle(varied_graph(3), 12, density=0.5, seed=3)
    dense = used = 0
    for layer, conv in bundle.manifest.convs.items():
        area = conv.kernel[0] * conv.kernel[1]
        dense += conv.out_channels * conv.in_channels * area * conv.positions
        used += int((bundle.weight(layer, bundle.mask("a", layer)) != 0).any((2, 3)).sum()) * area * conv.positions
    assert promised_speed_up(bundle_costs(bundle), "a") == pytest.approx(dense / used)


def test_a_domain_that_uses_nothing_promises_a_finite_speed_up() -> None:
    layer = LayerCost("c", 10, 9, 4, (0,), 0, 0, 0)
    assert promised_speed_up(CostReport(("a",), (layer,), (DomainCost(),)), "a") == 360


def _speed(engine: str, threads: int, domain: str | None, milliseconds: float) -> Speed:
    timing = Timing(median_ms=milliseconds, p95_ms=9.0)
    return Speed(engine=engine, threads=threads, domain=domain, latency=timing, images_per_second=1.0)


def test_gains_compare_medians_with_the_same_number_of_threads() -> None:
    layer = LayerCost("c", 10, 9, 4, (5, 2), 7, 0, 63)
    costs = CostReport(("a", "b"), (layer,), (DomainCost(), DomainCost()))
    speeds = [
        _speed("Prunus", 1, "a", 2.0),
        _speed("Prunus", 1, "b", 0.5),
        _speed("ONNX pruned", 1, "a", 0.1),
        _speed("ONNX dense", 1, None, 3.0),
        _speed("ONNX dense", 2, None, 2.0),
        _speed("Prunus", 2, "a", 1.0),
        _speed("Prunus", 4, "a", 1.0),  # nothing to compare with
        _speed("PyTorch dense", 4, None, 1.0),
    ]
    assert compare_with_dense(costs, speeds, "float32") == [
        Gain(domain="a", threads=1, promised=2.0, speed_up=1.5, realised=0.75),
        Gain(domain="b", threads=1, promised=5.0, speed_up=6.0, realised=1.2),
        Gain(domain="a", threads=2, promised=2.0, speed_up=2.0, realised=1.0),
    ]


def test_an_8_bit_file_is_compared_with_the_dense_network_of_8_bits_and_with_no_ideal() -> None:
    costs = CostReport(("a",), (LayerCost("c", 10, 9, 4, (5,), 5, 0, 45),), (DomainCost(),))
    speeds = [
        _speed("Prunus", 1, "a", 2.0),
        _speed("ONNX dense", 1, None, 30.0),
        _speed("onnxruntime_int8", 1, None, 5.0),
        _speed("onnxruntime_int8", 1, "a", 7.0),
        _speed("Prunus", 2, "a", 1.0),
        _speed("ONNX dense", 2, None, 20.0),  # not with the same number of bits
    ]
    assert compare_with_dense(costs, speeds, "int8") == [
        Gain(domain="a", threads=1, speed_up=2.5, over="onnxruntime_int8")
    ]


def test_a_model_file_is_timed_without_any_rival(tmp_path: Path) -> None:
    bundle = random_bundle(varied_graph(3), 12, ("a", "b"), density=0.5, seed=3)
    write_bundle(tmp_path / "m.prunus", bundle)

    class NoRivals(Rivals):
        def __init__(self) -> None:
            self._makers = {}

    watched: list[tuple[int, int, int]] = []
    with rounds_watched_by(lambda *step: watched.append(step)):
        speeds = measure_speeds(tmp_path / "m.prunus", ["b"], NoRivals(), threads=1, batch=4, rounds=3)
    total = 2 * (WARM_UP + 3)
    assert watched == [(1, done, total) for done in range(1, total + 1)]
    assert [(speed.engine, speed.threads, speed.domain) for speed in speeds] == [("Prunus", 1, "b")]
    assert speeds[0].latency.median_ms > 0
    assert speeds[0].images_per_second > 0


def test_every_run_takes_part_in_every_round_and_a_slow_one_takes_longer() -> None:
    calls: list[str] = []

    def slow() -> None:
        calls.append("slow")
        time.sleep(0.004)

    found = take_turns({"fast": lambda: calls.append("fast"), "slow": slow}, rounds=7)
    assert calls.count("fast") == calls.count("slow") == 2 * (WARM_UP + 7)  # each once before it is timed
    assert found["slow"].median_ms >= 4 > found["fast"].median_ms
    assert found["slow"].p95_ms >= found["slow"].median_ms


def test_the_order_changes_from_round_to_round() -> None:
    calls: list[int] = []
    take_turns({number: (lambda number=number: calls.append(number)) for number in range(4)}, rounds=10)  # type: ignore[misc]
    assert calls[::2] == calls[1::2]  # each once before it is timed
    rounds = [tuple(calls[first : first + 8 : 2]) for first in range(0, len(calls), 8)]
    assert len(set(rounds)) > 3
    assert all(sorted(each) == [0, 1, 2, 3] for each in rounds)
