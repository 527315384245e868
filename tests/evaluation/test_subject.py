"""Model files are opened as something to measure."""

from pathlib import Path

import pytest

from prunus.bundle.file import write_bundle
from prunus.errors import BundleError
from prunus.evaluation.subject import open_subject
from tests.makers.graph_bundles import random_bundle, varied_graph


def test_a_file_that_does_not_record_its_origin_is_refused(tmp_path: Path) -> None:
    write_bundle(tmp_path / "m.prunus", random_bundle(varied_graph(0), 12))
    with pytest.raises(BundleError, match=r"m\.prunus does not record its recipe and cannot be measured"):
        open_subject(tmp_path / "m.prunus")
