"""A file records which channels of its original network it has."""

import numpy as np
import pytest

from prunus.bundle.manifest import Manifest
from prunus.editing.kept_channels import kept_channels, record_channels
from prunus.errors import BundleError
from tests.makers.graph_bundles import convolution, make_graph, random_bundle

GRAPH = make_graph(
    convolution("first", [0], (5, 3), was=(9, 3)),
    convolution("second", [1], (4, 5), was=(4, 9)),
    convolution("whole", [2], (6, 4)),
)
CHANNELS = {
    "first": (np.array([0, 2, 3, 7, 8]), np.arange(3)),
    "second": (np.arange(4), np.array([0, 2, 3, 7, 8])),
    "whole": (np.arange(6), np.arange(4)),
}
WAS = {"first": (9, 3), "second": (4, 9), "whole": (6, 4)}


def manifest(**provenance: object) -> Manifest:
    return random_bundle(GRAPH, 12).manifest.model_copy(update={"provenance": provenance})


def test_recorded_channels_are_found_again() -> None:
    recorded = record_channels({"step": 3}, CHANNELS, WAS)
    assert recorded["step"] == 3
    assert recorded["channels"] == "jQE,Bw,Dw,Pw;0.1,2.0,3.2"
    found = kept_channels(manifest(**recorded))
    for layer, expected in CHANNELS.items():
        assert all(np.array_equal(mine, theirs) for mine, theirs in zip(found[layer], expected, strict=True))


def test_a_network_with_all_channels_records_nothing() -> None:
    assert record_channels({}, {"whole": CHANNELS["whole"]}, WAS) == {}


@pytest.mark.parametrize(
    "record",
    [
        *("", ";", "jQE,Bw,Dw,Pw;0.1,2.0", "jQE,Bw,Dw,Pw;0.1,2.0,3.9", "jQE,Bw,Dw,Pw;0.1,2,3.2"),
        *("!,Bw,Dw,Pw;0.1,2.0,3.2", "jQE,Bw,Dw,Pw;1.0,2.0,3.2", "jwE,Bw,Dw,Pw;0.1,2.0,3.2"),
        *("jQE,Bw,Dw,Pw;a.b,2.0,3.2", "jQE;0.1;2"),
    ],
)
def test_a_wrong_record_is_refused(record: str) -> None:
    with pytest.raises(BundleError, match="record of its channels does not fit its graph"):
        kept_channels(manifest(channels=record))


def test_a_file_of_an_earlier_version_has_no_record() -> None:
    with pytest.raises(BundleError, match="an earlier version wrote it; write it again with: prunus prune RUN"):
        kept_channels(manifest())
