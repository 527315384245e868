"""A short run of the fuzzer: damaged files are refused, quickly and in little memory; so are expensive ones."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fuzzing import search
from fuzzing.eight_bits import coded_model, without_floats
from fuzzing.model_files import compare
from fuzzing.models import attention_model, image_model, token_model
from fuzzing.rounding import rounded_logits
from prunus.bundle.bundle import Bundle
from prunus.graph.costs import Cost
from prunus.runtime.numpy_engine import NumpyEngine

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_no_damaged_file_crashes_hangs_or_answers_wrongly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fuzzing.model_files", "--count", "150", "--seed", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "150 damaged files" in done.stdout


@pytest.mark.parametrize("wrong", [1.1, np.nan])
@pytest.mark.parametrize("bundle", [token_model(), image_model(), coded_model(without_floats(attention_model()))])
def test_wrong_answers_are_found(bundle: Bundle, wrong: float) -> None:
    size = bundle.manifest.image_size
    images = np.random.default_rng(0).standard_normal((2, 3, size, size)).astype(np.float32)
    expected = NumpyEngine(bundle).logits(images, "birds")
    rounded = partial(rounded_logits, bundle, images, "birds")
    compare(expected, expected, bundle, rounded)
    with pytest.raises(AssertionError, match=r"disagree|finite"):
        compare((expected * wrong).astype(np.float32), expected, bundle, rounded)


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
