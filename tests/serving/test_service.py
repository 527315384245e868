"""A service puts its parts together: shares of kernels, mixed batches, and an event loop that stays free."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx
import pytest

from tests.makers.live_service import Live, live_service, picture, until


def test_domains_are_listed_with_the_share_of_kernels_that_each_uses(live: Live) -> None:
    answer = live.client.get("/domains").json()
    masks = live.predictor.bundle.layer_masks()
    total = sum(mask.shape[1] * mask.shape[2] for mask in masks.values())
    for number, domain in enumerate(answer["domains"]):
        assert domain["usage"] == pytest.approx(sum(int(mask[number].sum()) for mask in masks.values()) / total)
        assert domain["classes"] == ["x", "y", "z"]
    assert [domain["name"] for domain in answer["domains"]] == ["birds", "flowers"]
    assert answer["usage"] == pytest.approx(sum(int(mask.any(0).sum()) for mask in masks.values()) / total)
    assert answer["limits"] == {"upload_bytes": 1_000_000, "images": 3, "pixels": 1_000_000}


def test_requests_of_different_domains_that_come_together_are_computed_together(tmp_path: Path) -> None:
    with live_service(tmp_path, batch_ms=500) as live:
        live.predictor.gate.clear()
        first = threading.Thread(target=live.assert_right, args=(picture(0),))
        first.start()
        until(lambda: live.predictor.seen == 1)
        others = [
            threading.Thread(target=live.assert_right, args=(picture(seed),), kwargs={"domain": domain})
            for seed, domain in enumerate(("birds", "flowers", "birds", "flowers"), 1)
        ]
        for thread in others:
            thread.start()
        until(lambda: len(live.service.batcher) == 4)
        live.predictor.gate.set()
        for thread in (first, *others):
            thread.join()
        lines = live.client.get("/metrics").text.splitlines()
        assert "prunus_batch_images_count 2.0" in lines
        assert "prunus_batch_images_sum 5.0" in lines


@pytest.mark.slow
def test_a_large_image_that_is_being_decoded_does_not_stop_the_event_loop(tmp_path: Path) -> None:
    large = picture(1, side=4000, compress_level=0)
    with live_service(tmp_path, max_upload_mb=60) as live:
        finished = threading.Event()

        def upload() -> None:
            live.assert_right(large)
            finished.set()

        thread = threading.Thread(target=upload)
        thread.start()
        until(lambda: live.service.admission.arriving == 1 or finished.is_set())
        answered = 0
        with httpx.Client(base_url=live.client.base_url, timeout=60) as client:
            while not finished.is_set():
                assert client.get("/health").status_code == 200
                answered += 1
        thread.join()
        assert answered >= 3
