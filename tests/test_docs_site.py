"""The documentation builds without a warning, every link in it leads somewhere, and it needs no other host."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_opens_offline(tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).parent / "mkdocs"),
        "build",
        "--strict",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        loaded = re.findall(r'(?:<script[^>]+src|<link[^>]+href|<img[^>]+src)="(https?://[^"]+)"', page.read_text())
        assert loaded == [], page
    reference = (tmp_path / "site" / "reference.html").read_text()
    assert "A loaded model file, for all its domains" in reference
