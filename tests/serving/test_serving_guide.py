"""The page about serving: its examples run against a service, and its tables are those of the code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from prunus.serving.settings import ServeSettings
from tests.makers.live_service import live_service, picture

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "serving.md").read_text()
# a space before the language: these need a running service, and are run here
EXAMPLES = dict(re.findall(r"^``` (\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("kind", ["sh", "python"])
def test_the_clients_of_the_page_get_answers(tmp_path: Path, kind: str) -> None:
    if kind == "sh" and shutil.which("curl") is None:
        pytest.skip("no curl here")
    (tmp_path / "rose.jpg").write_bytes(picture(1, "JPEG"))
    with live_service(tmp_path) as live:
        best = live.predictor.predict(tmp_path / "rose.jpg", "flowers")[0].label
        block = EXAMPLES[kind].replace("http://127.0.0.1:8000", str(live.client.base_url).rstrip("/"))
        command = {"sh": ["bash", "-c"], "python": [sys.executable, "-c"]}[kind]
        done = subprocess.run([*command, block], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = {"sh": f'"predictions":[{{"label":"{best}"', "python": f"first.jpg {best} "}[kind]
    assert said in done.stdout


def test_every_setting_is_on_the_page_with_its_default() -> None:
    for name, field in ServeSettings.model_fields.items():
        default = f"{field.default:g}" if isinstance(field.default, float) else field.default
        assert f"| `{name}` | {default} | {field.description} |" in TEXT


def test_the_page_shows_the_load_that_was_measured_without_a_wrong_answer() -> None:
    found = json.loads((ROOT / "docs" / "results" / "benchmarks" / "service_load.json").read_text())
    for name in ("many at a time", "one at a time"):
        row = found[name]
        assert f"{row['requests']:,} | {row['per_second']:,.0f} | {row['p50_ms']:.1f} | {row['p99_ms']:.1f} |" in TEXT
        assert (row["wrong"], list(row["statuses"])) == (0, ["200"])
    assert found["many at a time"]["requests"] >= 10_000
    assert found["speed_up"] >= 1.5
    assert f"{found['speed_up']:.2f} times" in TEXT
    fuzzed = json.loads((ROOT / "docs" / "results" / "benchmarks" / "fuzz_uploads.json").read_text())
    counts = [count for statuses in fuzzed["outcomes"].values() for count in statuses.values()]
    assert fuzzed["count"] == sum(counts) == 2000
    assert all(int(status) < 500 for statuses in fuzzed["outcomes"].values() for status in statuses)
