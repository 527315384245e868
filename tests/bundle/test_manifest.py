"""A manifest derives shapes and layers from the graph, and refuses keys and names that it does not know."""

import pytest
from pydantic import ValidationError

from prunus.bundle.manifest import DomainEntry, Manifest
from prunus.graph.operations import Graph
from prunus.images import Preprocess
from tests.makers.graph_bundles import convolution, make_graph, random_bundle, varied_graph

ENTRY = DomainEntry(classes=("x",), preprocess=Preprocess(size=8, resize=8, mean=(0, 0, 0), std=(1, 1, 1)))


def _manifest(graph: Graph, domain: str = "a") -> Manifest:
    domains = {domain: ENTRY}
    return Manifest(backbone="b", image_size=8, graph=graph, domains=domains, dense_bytes=0, provenance={})


def test_a_layer_that_runs_twice_is_one_layer_with_the_pixels_of_both_runs() -> None:
    first = convolution("stem", [0], (4, 3), was=(6, 3), stride=(2, 2))
    twice = convolution("twice", [1], (4, 4))
    pool = {"op": "pool", "inputs": (2,), "kind": "max", "kernel": (2, 2), "stride": (2, 2)}
    manifest = _manifest(make_graph(first, twice, pool, twice | {"inputs": (3,)}))
    assert list(manifest.convs) == ["stem", "twice"]
    assert manifest.convs["stem"].dense_kernels == 6 * 3
    assert manifest.convs["stem"].num_kernels == 4 * 3
    assert manifest.convs["twice"].positions == 4 * 4 + 2 * 2
    assert manifest.convs["twice"].dense_kernels == 4 * 4
    assert manifest.num_features == 4 * 2 * 2


@pytest.mark.parametrize("name", ["", "a/b", "../a", ".a", "a b", "n" * 201])
def test_a_domain_name_that_is_not_a_file_name_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        _manifest(make_graph({"op": "mean", "inputs": (0,)}), name)


def test_an_unknown_key_is_refused_and_a_manifest_cannot_be_changed() -> None:
    manifest = _manifest(make_graph({"op": "mean", "inputs": (0,)}))
    with pytest.raises(ValidationError, match="extra_forbidden"):
        Manifest.model_validate_json(manifest.model_dump_json().replace('"dense_bytes"', '"colour":1,"dense_bytes"'))
    with pytest.raises(ValidationError, match="frozen"):
        manifest.backbone = "c"


@pytest.mark.parametrize("recipe", [None, 3, {"domains": 3}, {"domains": [3]}, {"domains": [{"source": True}]}])
def test_a_file_that_records_anything_else_has_no_source(recipe: object) -> None:
    manifest = random_bundle(varied_graph(0), 12, ("birds", "flowers")).manifest
    assert manifest.model_copy(update={"provenance": {"recipe": recipe}}).source is None


def test_the_source_of_a_file_is_one_of_its_domains() -> None:
    manifest = random_bundle(varied_graph(0), 12, ("birds", "flowers")).manifest
    choices = [{"name": "gone", "source": True}, {"name": "flowers", "source": True}]
    assert manifest.model_copy(update={"provenance": {"recipe": {"domains": choices}}}).source == "flowers"
