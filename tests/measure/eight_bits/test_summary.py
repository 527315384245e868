"""An 8-bit file says what computes with integers and what that loses."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from prunus.bundle.bundle import Bundle
from prunus.bundle.file import write_bundle
from prunus.cli.app import app
from prunus.measure.eight_bits.held_out import HeldOut
from prunus.measure.eight_bits.summary import CALIBRATION, EightBits, eight_bits_of
from prunus.measure.inspection import inspect_file
from prunus.quantizing.images import Draw
from prunus.quantizing.quantize import Settings, quantize
from tests.makers.coded_bundles import integer_graph, random_coded_bundle, without_ones
from tests.makers.eight_bit_images import drawn_images
from tests.makers.graph_bundles import convolution, make_graph, random_bundle


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
    rows = {"a": [100, 0.91, 0.9, 3, 0], "b": [50, 0.8, 0.82, 1, 20], "gone": [1, 1.0, 1.0, 0, 0]}
    path = _in_eight_bits(tmp_path, {"int8": {"calibration": 64, "accuracy": rows}})
    inspection = inspect_file(path)
    found = inspection.eight_bits
    assert found is not None
    assert (found.operations, found.integers, found.wide, found.calibration) == (26, 21, ("narrow",), 64)
    assert (found.kept_float, found.kept_others) == (("valid", "narrow"), 2)  # one of the layers runs twice
    assert list(found.held_out) == ["a", "b"]
    chance = 1 / inspection.domains["a"]
    assert found.held_out["a"] == HeldOut(images=100, floats=0.91, int8=0.9, turned=3, validation=0, chance=chance)
    assert found.within is True
    shown = " ".join(CliRunner().invoke(app, ["inspect", str(path)]).stdout.split())
    assert "8 bits: 21 of 26 operations compute with integers" in shown
    images = "130 training images that chose no coding and 20 validation images"
    assert f"mean accuracy on {images}: 86.0 % (in floats 85.5 %)" in shown
    assert "in a, 90 of 100 are right (in floats 91; 3 in only one of the two) in b, 41 of 50 are right" in shown
    assert "note: fewer than 100 images measured what is lost in b (50)" in shown
    assert "weights kept as float16, and computed in floats: narrow" in shown
    assert sum(inspect_file(path).bytes_by_part.values()) == path.stat().st_size


def test_of_a_file_of_an_earlier_version_only_what_it_records_is_said(tmp_path: Path) -> None:
    rows = {"a": [200, 0.91, 0.905], "b": [200, 0.8, 0.82]}
    found = inspect_file(_in_eight_bits(tmp_path, {"int8": {"calibration": 64, "accuracy": rows}})).eight_bits
    assert found is not None
    assert found.within is None  # who knows how many images turned?
    assert found.in_words()[-3:] == [
        "mean accuracy on held-out images: 86.2 % (in floats 85.5 %)",
        "in a, 181 of 200 are right (in floats 182)",
        "in b, 164 of 200 are right (in floats 160)",
    ]
    assert found.notes() == []


def _described(**changes: object) -> list[str]:
    return _summary(**changes).in_words()


def _summary(**changes: object) -> EightBits:
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
    return whole.model_copy(update=changes)


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


def test_few_images_that_chose_the_codings_are_counted() -> None:
    assert Draw().calibration == CALIBRATION
    said = "at most 3 images of each domain chose the codings, where 64 are usual"
    assert _summary(calibration=3).notes() == [said]
    assert _summary(calibration=1).notes()[0].startswith("at most 1 image of each domain")
    assert _summary(calibration=None).notes() == _summary().notes() == []


def test_near_chance_nothing_returns_to_floats_to_lose_less() -> None:
    row = HeldOut(images=200, floats=0.135, int8=0.13, turned=3, validation=0, chance=0.1)
    alone = _summary(integers=9, kept_float=("a",), held_out={"a": row})
    assert alone.in_words()[1] == "returned to floats: a"
    assert alone.notes() == [
        "accuracies decide nothing where the network is close to chance in floats: a (13.5 % right, by chance 10.0 %)"
    ]
    better = row.model_copy(update={"floats": 0.9, "int8": 0.9})
    both = alone.model_copy(update={"held_out": {"a": row, "b": better}})
    assert both.in_words()[1] == "returned to floats, to lose less accuracy: a"
    assert both.notes() == alone.notes()


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
