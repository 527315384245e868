"""Looking into a model file: shares of the whole network, and tables that fit a terminal."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from prunus.arrays import Array, DType
from prunus.bundle.bits import pack_bits
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import read_bundle, write_bundle
from prunus.bundle.manifest import DomainEntry, Manifest
from prunus.cli.app import app
from prunus.graph.operations import Conv
from prunus.images import Preprocess
from prunus.measure.inspection import EightBits, HeldOut, bundle_sharing, eight_bits_of, inspect_file
from prunus.quantizing.quantize import Settings, quantize
from tests.makers.coded_bundles import integer_graph, random_coded_bundle, without_ones
from tests.makers.eight_bit_images import drawn_images
from tests.makers.graph_bundles import convolution, make_graph, random_bundle

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


def _in_eight_bits(folder: Path, provenance: dict[str, object]) -> Path:
    """Write an 8-bit file of 26 operations, all but five of which compute with integers."""
    drawn = random_coded_bundle(integer_graph(36), 12, seed=36)
    graph = drawn.manifest.graph
    whole = drawn.manifest.model_copy(update={"provenance": provenance})
    manifest = whole.with_graph(graph, tuple(n for n in drawn.manifest.integers if n < len(graph) - 5), ("narrow",))
    rows = [drawn.manifest.coded.index(value) for value in manifest.coded]
    arrays = {name: array[rows] if name.startswith("coding/") else array for name, array in drawn.arrays.items()}
    arrays["kernels/narrow"] = drawn.kernels("narrow").astype(np.float16)
    del arrays["scale/narrow"]
    write_bundle(folder / "m.prunus", Bundle(manifest, arrays), "int8")
    return folder / "m.prunus"


def test_an_8_bit_file_says_what_computes_with_integers_and_what_that_loses(tmp_path: Path) -> None:
    record = {"calibration": 64, "accuracy": {"a": [100, 0.91, 0.9], "b": [50, 0.8, 0.82], "gone": [1, 1.0, 1.0]}}
    path = _in_eight_bits(tmp_path, {"int8": record})
    found = inspect_file(path).eight_bits
    assert found is not None
    assert (found.operations, found.integers, found.wide, found.calibration) == (26, 21, ("narrow",), 64)
    assert (found.kept_float, found.kept_others) == (("valid", "narrow"), 2)  # one of the layers runs twice
    assert list(found.held_out) == ["a", "b"]
    assert (found.held_out["a"].images, found.held_out["a"].floats, found.held_out["a"].int8) == (100, 0.91, 0.9)
    shown = " ".join(CliRunner().invoke(app, ["inspect", str(path)]).stdout.split())
    assert "8 bits: 21 of 26 operations compute with integers" in shown
    assert "mean accuracy on held-out images: 86.0 % (in floats 85.5 %)" in shown
    assert "in a, 90 of 100 are right (in floats 91) in b, 41 of 50 are right (in floats 40)" in shown
    assert "weights kept as float16, and computed in floats: narrow" in shown
    assert sum(inspect_file(path).bytes_by_part.values()) == path.stat().st_size


def _described(**changes: object) -> list[str]:
    row = HeldOut(images=186, floats=0.6022, int8=0.586)
    whole = EightBits(
        operations=21,
        integers=21,
        kept_float=(),
        kept_others=0,
        always_float={},
        wide=(),
        calibration=64,
        held_out={"fruits": row},
        unmeasured=(),
    )
    return whole.model_copy(update=changes).in_words()


def test_the_images_of_a_single_domain_are_counted() -> None:
    assert _described() == [
        "8 bits: 21 of 21 operations compute with integers",
        "accuracy on held-out images: 58.6 % (in floats 60.2 %)",
        "in fruits, 109 of 186 are right (in floats 112)",
    ]
    assert _described(held_out={}, unmeasured=("fruits", "signs"))[1:] == [
        "not measured, because no images were held out: fruits, signs"
    ]


def test_of_many_domains_those_are_counted_that_lose_most() -> None:
    rows = {f"d{number:02}": HeldOut(images=100, floats=0.5, int8=0.4 + number / 100) for number in range(12)}
    lines = _described(held_out=rows)
    assert lines[2:-1] == [f"in d{number:02}, {40 + number} of 100 are right (in floats 50)" for number in range(10)]
    assert lines[-1] == "2 other domains lose less or nothing"


def test_layers_that_returned_to_floats_are_named_and_other_operations_are_counted() -> None:
    layers = tuple(f"layer{number}" for number in range(14))
    returned = "returned to floats, to lose less accuracy: "
    assert _described(integers=9, kept_float=("a", "b"), kept_others=1)[1] == f"{returned}a, b, 1 other operation"
    assert _described(integers=9, kept_others=2)[1] == f"{returned}2 operations"
    assert _described(integers=9, kept_float=layers)[1] == f"{returned}{', '.join(layers[:12])}, 2 more layers"
    wide = _described(integers=9, kept_float=("a", "b"), wide=("a",))
    assert wide[1:3] == [f"{returned}b", "weights kept as float16, and computed in floats: a"]


def test_operations_that_always_use_floats_are_counted_by_kind() -> None:
    kinds = {"layer norms": 13, "attention": 6, "others": 4}
    assert _described(operations=54, integers=31, always_float=kinds)[0] == (
        "8 bits: 31 of 54 operations compute with integers; "
        "23 always use floats (layer norms 13, attention 6, others 4)"
    )
    graph = make_graph(
        convolution("a", [0], (8, 3)),
        {"op": "layer_norm", "inputs": (1,), "eps": 1e-6},
        {"op": "mean", "inputs": (2,)},
    )
    floats = without_ones(random_bundle(graph, 8))
    found = eight_bits_of(quantize(floats, drawn_images(floats), Settings(), lambda *_: None))
    assert found is not None
    assert found.always_float == {"layer norms": 1}
    assert "; 1 always uses floats (layer norms 1)" in found.in_words()[0]


def test_a_file_without_integers_says_that_it_is_not_faster() -> None:
    lines = _described(integers=0, kept_float=("a", "b"), kept_others=3)
    assert lines[1] == "without integers the file is small, but not faster than a file of floats"
    assert not any("returned" in line for line in lines)


@pytest.mark.parametrize("record", [None, "x", {"calibration": "many", "accuracy": []}])
def test_what_a_stranger_recorded_is_ignored_if_it_is_no_record(tmp_path: Path, record: object) -> None:
    found = inspect_file(_in_eight_bits(tmp_path, {"int8": record})).eight_bits
    assert found is not None
    assert (found.calibration, found.held_out, found.unmeasured) == (None, {}, ())
    assert found.in_words()[0].startswith("8 bits: 21 of 26 operations")


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
