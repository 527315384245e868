"""Examples come from a folder or from the bundled domains."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from prunus.errors import DataError
from prunus.serving.routes import examples
from prunus.serving.routes.examples import MAX_BYTES, read_examples
from tests.makers.hostile_files import write_liar
from tests.makers.live_service import picture


def test_examples_come_from_a_folder_or_from_the_bundled_domains(tmp_path: Path) -> None:
    (tmp_path / "birds").mkdir()
    (tmp_path / "birds" / "owl.png").write_bytes(picture(1))
    (tmp_path / "birds" / "notes.txt").write_text("no image")
    found = read_examples(tmp_path, ["birds", "flowers"])
    assert [(each.name, each.media_type) for each in found["birds"]] == [("owl", "image/png")]
    assert found["flowers"] == []
    bundled = read_examples("demo:", ["fruits", "birds"])
    assert len({each.name for each in bundled["fruits"]}) == 8
    assert bundled["birds"] == []


def test_a_file_that_is_too_large_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "birds").mkdir()
    (tmp_path / "birds" / "owl.png").write_bytes(bytes(MAX_BYTES + 1))
    with pytest.raises(DataError, match=r"owl\.png has 4,000,001 bytes; at most 4,000,000 are allowed"):
        read_examples(tmp_path, ["birds"])


def test_an_example_that_is_no_regular_file_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "birds").mkdir()
    os.mkfifo(tmp_path / "birds" / "owl.png")
    with pytest.raises(DataError, match=r"cannot read the example .*owl\.png: it is a named pipe, not a regular file"):
        read_examples(tmp_path, ["birds"])


def test_a_bundled_image_that_lies_about_its_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_liar(tmp_path / "birds.zip", zipfile.ZIP_DEFLATED, "test/owl/x.png")
    monkeypatch.setattr(examples, "bundled", lambda _: tmp_path)
    with pytest.raises(DataError, match=r"the example test/owl/x\.png in .*: it claims 1,000 bytes, but"):
        read_examples("demo:", ["birds"])
