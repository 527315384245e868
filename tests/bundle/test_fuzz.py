"""A short run of the fuzzer: damaged files are refused, quickly and in little memory."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_no_damaged_file_crashes_hangs_or_answers_wrongly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fuzzing.model_files", "--count", "150", "--seed", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "150 damaged files" in done.stdout
