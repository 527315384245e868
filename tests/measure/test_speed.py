"""A benchmark reads what earlier versions wrote."""

import pytest
from pydantic import ValidationError

from prunus.measure.speed import Benchmark

SPEED = {
    "engine": "Prunus",
    "threads": 2,
    "domain": "birds",
    "latency": {"median_ms": 0.25, "p95_ms": 0.5},
    "images_per_second": 4000.0,
}
OLD = {"model": "m.prunus", "machine": "a small machine", "batch": 16, "versions": {"numpy": "2.0"}, "speeds": [SPEED]}


def test_what_earlier_files_lack_is_unknown() -> None:
    benchmark = Benchmark.model_validate(OLD)
    assert (benchmark.prunus_engine, benchmark.backbone, benchmark.image_size) == (None, None, None)
    assert (benchmark.gains, benchmark.missing) == ((), {})
    assert benchmark.speeds[0].latency.median_ms == 0.25
    assert benchmark.speeds[0].domain == "birds"


def test_a_dump_is_read_back_unchanged() -> None:
    gain = {"domain": "birds", "threads": 2, "promised": 4.0, "speed_up": 3.0, "realised": 0.75}
    benchmark = Benchmark.model_validate(OLD | {"gains": [gain], "missing": {"ONNX dense": "not installed"}})
    assert Benchmark.model_validate_json(benchmark.model_dump_json()) == benchmark
    assert benchmark.model_dump(mode="json")["gains"] == [gain | {"over": "ONNX dense"}]


@pytest.mark.parametrize("change", [{"speeds": []}, {"batch": "many"}, {"unknown": 1}])
def test_content_of_another_form_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Benchmark.model_validate(OLD | change)
