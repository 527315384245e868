"""Looking into a model file: shares of the whole network, and tables that fit a terminal."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from prunus.arrays import Array, DType
from prunus.bundle.bundle import Bundle
from prunus.bundle.coding.bits import pack_bits
from prunus.bundle.file import read_bundle, write_bundle
from prunus.bundle.manifest import DomainEntry, Manifest
from prunus.cli.app import app
from prunus.graph.operations import Conv
from prunus.images import Preprocess
from prunus.measure.inspection import bundle_sharing, inspect_file

LAYERS = [f"stages.{each}.blocks.downsampling.with.a.long.name.conv{each}" for each in range(3)]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Three layers that had twice as many filters, and five domains, the first of which uses one kernel of each."""
    graph = []
    for place, layer in enumerate(LAYERS):
        inputs = 4 if place else 3
        graph.append(
            Conv(op="conv", inputs=(place,), layer=layer, channels=(4, inputs), was=(8, inputs), kernel=(1, 1))
        )
    preprocess = Preprocess(size=2, resize=2, mean=(0, 0, 0), std=(1, 1, 1))
    names = ("characters", "clothing", "fashion", "fruits", "signs")
    domains = {name: DomainEntry(classes=("x", "y"), preprocess=preprocess) for name in names}
    manifest = Manifest(
        backbone="odd", image_size=2, graph=tuple(graph), domains=domains, dense_bytes=99, provenance={}
    )
    arrays: dict[str, Array] = {}
    for layer, entry in manifest.convs.items():
        kept = np.arange(entry.num_kernels) < 8
        arrays |= {f"union/{layer}": pack_bits(kept), f"kernels/{layer}": np.ones((8, 1, 1), np.float32)}
        for place, name in enumerate(names):
            arrays[f"mask/{name}/{layer}"] = pack_bits(np.arange(8) < (8 if place else 1))
    for name in names:
        arrays |= {f"head/{name}/weight": np.ones((2, 16), np.float32), f"head/{name}/bias": np.ones(2, np.float32)}
    write_bundle(tmp_path / "m.prunus", Bundle(manifest, arrays))
    return tmp_path / "m.prunus"


def test_shares_are_of_the_network_before_pruning(model: Path) -> None:
    found = inspect_file(model)
    assert [(layer.num_kernels, layer.kept, layer.channels) for layer in found.layers] == [
        (24, 8, (4, 3)),
        (32, 8, (4, 4)),
        (32, 8, (4, 4)),
    ]
    assert found.layers[1].usage == {"characters": 1 / 32} | dict.fromkeys(list(found.domains)[1:], 0.25)
    assert found.sharing["characters"]["signs"] == 1 / 8
    assert sum(found.bytes_by_part.values()) == model.stat().st_size


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_type_of_the_numbers_is_named_and_only_their_bytes_change(model: Path, dtype: DType) -> None:
    whole = inspect_file(model)
    write_bundle(model, read_bundle(model), dtype)
    found = inspect_file(model)
    assert (whole.dtype, found.dtype) == ("float32", dtype)
    assert (found.layers, found.sharing) == (whole.layers, whole.sharing)
    halves = {name for name, count in whole.bytes_by_part.items() if 0 < found.bytes_by_part[name] * 2 == count}
    assert halves == (set() if dtype == "float32" else {"weights of the kept kernels", "classifiers"})
    assert f": odd, {dtype}, 5 domains" in CliRunner().invoke(app, ["inspect", str(model)]).output.replace("\n", "")


def test_the_tables_fit_80_columns_with_the_whole_name_of_every_layer(model: Path) -> None:
    output = CliRunner().invoke(app, ["inspect", str(model)], env={"COLUMNS": "80"}).output
    lines = output.splitlines()[1:]  # the first names the file, however long its name
    assert max(map(len, lines)) <= 80
    assert "domains: 1 characters, 2 clothing, 3 fashion, 4 fruits, 5 signs" in lines
    assert all(any(f"name.conv{each} " in line for line in lines) for each in range(3))
    assert "…" not in output  # long names are broken after dots
    wide = CliRunner().invoke(app, ["inspect", str(model)], env={"COLUMNS": "200"}).output
    assert all(layer in wide for layer in LAYERS)
    assert "characters   clothing" in wide


def test_a_file_of_floats_says_nothing_about_integers(model: Path) -> None:
    assert inspect_file(model).eight_bits is None
    assert "eight_bits" not in inspect_file(model).model_dump(mode="json")


def test_the_sharing_of_many_layers_and_domains_takes_the_memory_of_one_layer() -> None:
    layers, count = 60, 150
    graph = [
        Conv(op="conv", inputs=(place,), layer=f"layer{place}", channels=(3, 3), kernel=(1, 1))
        for place in range(layers)
    ]
    preprocess = Preprocess(size=1, resize=1, mean=(0, 0, 0), std=(1, 1, 1))
    domains = {f"domain{each}": DomainEntry(classes=("x", "y"), preprocess=preprocess) for each in range(count)}
    manifest = Manifest(
        backbone="odd", image_size=1, graph=tuple(graph), domains=domains, dense_bytes=99, provenance={}
    )
    bundle = Bundle(manifest, {})
    masks = np.packbits(np.random.default_rng(0).random((count, 9)) < 0.5, axis=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bundle, "packed_masks", lambda self, layer: masks)
        tracemalloc.start()
        sharing = bundle_sharing(bundle)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    first, second = (np.unpackbits(mask).astype(bool) for mask in masks[:2])
    assert sharing["domain0"]["domain1"] == (first & second).sum() / (first | second).sum()
    assert peak < layers * count * count * 8  # of one matrix for every layer
