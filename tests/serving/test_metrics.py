"""What the service counts, as Prometheus reads it."""

import pytest

from prunus.serving.metrics import Metrics


def _values(metrics: Metrics) -> dict[str, float]:
    lines = [line for line in metrics.text().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_requests_images_and_seconds_are_counted_by_domain() -> None:
    metrics = Metrics(lambda: 3, lambda: 4096, lambda: 5)
    metrics.answer("birds", 200, 2, 0.004)
    metrics.answer("birds", 200, 1, 0.02)
    metrics.answer("birds", 422, 0, 0.5)
    values = _values(metrics)
    assert values['prunus_requests_total{domain="birds",status="200"}'] == 2
    assert values['prunus_requests_total{domain="birds",status="422"}'] == 1
    assert values['prunus_images_total{domain="birds"}'] == 3
    assert values['prunus_request_seconds_count{domain="birds"}'] == 2  # refused requests would hide the slow ones
    assert values['prunus_request_seconds_bucket{domain="birds",le="0.005"}'] == 1
    assert values['prunus_request_seconds_bucket{domain="birds",le="0.025"}'] == 2
    assert (values["prunus_queue_requests"], values["prunus_held_bytes"]) == (3, 4096)
    assert values["prunus_given_up_requests"] == 5


def test_metrics_that_take_long_to_write_are_not_written_at_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    calls: list[object] = []

    def slow(registry: object) -> bytes:
        calls.append(registry)
        now[0] += 0.2
        return b"%d" % len(calls)

    for clock in ("monotonic", "thread_time"):
        monkeypatch.setattr(f"prunus.serving.metrics.time.{clock}", lambda: now[0])
    monkeypatch.setattr("prunus.serving.metrics.generate_latest", slow)
    metrics = Metrics(lambda: 0, lambda: 0, lambda: 0)
    assert metrics.text() == b"1"
    now[0] = 2.1
    assert metrics.text() == b"1"
    now[0] = 2.3
    assert metrics.text() == b"2"


def test_batches_and_restarted_decoders_are_counted() -> None:
    metrics = Metrics(lambda: 0, lambda: 0, lambda: 0)
    assert _values(metrics)["prunus_decoder_restarts_total"] == 0
    metrics.decoder_restart()
    metrics.batch(3)
    metrics.batch(16)
    values = _values(metrics)
    assert values["prunus_decoder_restarts_total"] == 1
    assert values['prunus_batch_images_bucket{le="2.0"}'] == 0
    assert values['prunus_batch_images_bucket{le="4.0"}'] == 1
    assert values["prunus_batch_images_sum"] == 19
