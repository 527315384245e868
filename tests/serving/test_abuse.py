"""Short runs of the fuzzers: hostile uploads and what schemathesis makes of the schema are all refused properly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.makers.live_service import live_service, picture

ROOT = Path(__file__).parents[2]


def test_no_hostile_upload_breaks_a_service_or_the_next_answer() -> None:
    command = [sys.executable, "-m", "fuzzing.uploads", "--count", "200", "--seed", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "200 hostile uploads" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(("speed_up", "status"), [(1.49, 1), (1.5, 0)])
def test_a_measurement_in_which_batches_gain_too_little_fails(speed_up: float, status: int) -> None:
    found = {"speed_up": speed_up, "load_before": 0.5}
    code = f"import sys; from benchmarks import service_load; sys.exit(service_load.complaint({found}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    said = "many at a time are 1.49 times as fast as one at a time; at least 1.5 are expected"
    assert (done.returncode, said in done.stderr) == (status, status == 1)


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
