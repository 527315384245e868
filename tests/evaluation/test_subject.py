"""Model files are opened as something to measure."""

from dataclasses import replace
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


@pytest.mark.parametrize(
    ("key", "value"), [("recipe", "text"), ("recipe", None), ("step", "a"), ("step", None), ("total_steps", [1])]
)
def test_what_a_file_records_of_its_run_must_have_the_right_type(tmp_path: Path, key: str, value: object) -> None:
    bundle = random_bundle(varied_graph(0), 12)
    provenance = {"recipe": {}, "step": 1, "total_steps": 1} | {key: value}
    changed = bundle.manifest.model_copy(update={"provenance": provenance})
    write_bundle(tmp_path / "m.prunus", replace(bundle, manifest=changed))
    with pytest.raises(BundleError, match=rf"m\.prunus does not record its {key} and cannot be measured"):
        open_subject(tmp_path / "m.prunus")
