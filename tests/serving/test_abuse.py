"""Short runs of the fuzzers: hostile uploads and what schemathesis makes of the schema are all refused properly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.service_load import complaint
from tests.makers.live_service import live_service, picture

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_no_hostile_upload_breaks_a_service_or_the_next_answer() -> None:
    command = [sys.executable, "-m", "fuzzing.uploads", "--count", "200", "--seed", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "200 hostile uploads" in done.stdout
    assert done.stderr == ""


def test_a_measurement_in_which_batches_gain_too_little_fails() -> None:
    said = complaint({"speed_up": 1.49, "load_before": 0.5})
    assert said is not None  # sys.exit() prints it and exits with 1
    assert "many at a time are 1.49 times as fast as one at a time; expected at least 1.5" in said
    assert complaint({"speed_up": 1.5, "load_before": 0.5}) is None


@pytest.mark.slow
def test_no_request_that_schemathesis_invents_breaks_the_schema_or_the_service(tmp_path: Path) -> None:
    with live_service(tmp_path) as live:
        url = f"{live.client.base_url}/openapi.json"
        options = ["--phases", "examples,coverage,fuzzing", "--max-examples", "15", "--seed", "1", "--checks", "all"]
        # random bytes fit the schema of an upload and are no image
        options += ["--exclude-checks", "positive_data_acceptance", "--no-color"]
        command = [sys.executable, "-m", "schemathesis.cli", "run", url, *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr
        live.assert_right(picture(1))
