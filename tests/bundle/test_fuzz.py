"""A short run of the fuzzer: damaged files are refused, quickly and in little memory; so are expensive ones."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fuzzing import search
from prunus.graph.costs import Cost

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_no_damaged_file_crashes_hangs_or_answers_wrongly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fuzzing.model_files", "--count", "150", "--seed", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "150 damaged files" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak")
def test_a_search_measures_files_continues_and_finds_none_above_the_bounds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fuzzing.model_files", "--search", "--count", "40", "--json", str(tmp_path / "a")]
    for options, files in ((["--seed", "1"], 40), (["--seed", "2", "--resume", str(tmp_path / "a")], 80)):
        done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        findings = json.loads((tmp_path / "a").read_text())["findings"]
        assert findings["files"] == files
        assert findings["accepted"] + sum(findings.get("refused", {}).values()) == files
    assert findings["accepted"] > 40
    for goal, found in findings["best"].items():
        shares = [entry["shares"][goal] for entry in found]
        assert shares == sorted(shares, reverse=True)
        assert 0 < shares[0] <= 1


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak")
def test_a_search_that_finds_an_expensive_file_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "allowed_cost", lambda size: Cost(1e-9, 1.0, 1e-9, 1.0))
    with pytest.raises(SystemExit, match="above the bounds: load_seconds, load_bytes"):
        search.search(search.SearchPlan(count=1, seed=1, seconds=60, resumed=(), out=None))
