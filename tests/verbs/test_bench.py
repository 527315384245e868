"""A benchmark times every engine that is installed and says which are not."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import prunus
from prunus.arrays import DType, Floats
from prunus.backbone.zoo import load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.splitting import possible_integers
from prunus.bundle.file import write_bundle
from prunus.bundle.manifest import DomainEntry
from prunus.cli.app import app
from prunus.config import BackboneChoice
from prunus.errors import DataError, UnknownNameError
from prunus.lowering.pack import pack
from prunus.methods.table import adapt
from prunus.quantizing.calibration import calibrate
from prunus.quantizing.coder import make_coder
from prunus.quantizing.images import Drawn
from prunus.timing.rivals import Rivals
from tests.makers.eight_bit_images import drawn_images
from tests.makers.graph_bundles import random_bundle, varied_graph

OPENVINO = {"openvino_int8", "openvino_bf16"}  # not among the packages of this project
pytestmark = pytest.mark.slow  # trains


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    backbone = load_backbone(BackboneChoice(name="wrn14_2"))
    net = adapt(backbone, {"birds": ("owl", "wren"), "signs": ("stop", "go", "yield")}, "union").eval()
    assert net.switches is not None
    scores = net.switches.scores_DM.data
    scores.fill_(1.0)
    scores[0, ::2] = -1.0
    entries = {name: DomainEntry(classes=each, preprocess=backbone.preprocess) for name, each in net.classes.items()}
    path = tmp_path_factory.mktemp("bench") / "m.prunus"
    write_bundle(path, pack(net, backbone, entries, {}))
    return path


def test_every_engine_is_timed_for_every_domain_and_number_of_threads(model: Path) -> None:
    found = prunus.bench(model, threads=[1, 2, 1], batch=2, rounds=2)
    timed = [(each.engine, each.threads, each.domain) for each in found.speeds if each.engine not in OPENVINO]
    assert len(timed) == len(set(timed))  # what is asked for twice is timed once
    assert set(timed) == {
        (engine, threads, domain)
        for threads in (1, 2)
        for engine, domains in {
            "Prunus": ("birds", "signs"),
            "ONNX pruned": ("birds", "signs"),
            "ONNX dense": (None,),
            "PyTorch dense": (None,),
            "onnxruntime_int8": (None,),
        }.items()
        for domain in domains
    }
    assert all(0 < each.latency.median_ms <= each.latency.p95_ms * 1.001 for each in found.speeds)
    assert all(each.images_per_second > 0 for each in found.speeds)
    assert found.missing.keys() <= OPENVINO
    assert all(each.accuracy is None for each in found.speeds)
    assert found.unmeasured == f"{model} does not record its recipe and cannot be measured; use prunus predict"
    for gain in found.gains:
        assert gain.promised is not None
        assert gain.realised == pytest.approx(gain.speed_up / gain.promised)
    assert {(gain.domain, gain.threads) for gain in found.gains} == {(d, t) for d in ("birds", "signs") for t in (1, 2)}


def test_what_is_not_installed_is_left_out_and_said(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    found = prunus.bench(model, threads=[1], domains=["birds"], batch=1, rounds=1)
    assert {each.engine for each in found.speeds} - OPENVINO == {"Prunus", "PyTorch dense"}
    assert found.missing.keys() - OPENVINO == {"ONNX pruned", "ONNX dense", "onnxruntime_int8"}
    assert found.gains == ()


def test_an_unknown_domain_is_refused(model: Path) -> None:
    with pytest.raises(UnknownNameError, match="signs"):
        prunus.bench(model, domains=["sings"])


def test_the_command_prints_a_table_a_plot_and_json(model: Path, tmp_path: Path) -> None:
    options = ["bench", str(model), "--threads", "1", "--rounds", "1", "--batch", "1"]
    shown = CliRunner().invoke(app, [*options, "--plot", str(tmp_path / "bench.png")], env={"COLUMNS": "80"})
    assert shown.exit_code == 0, shown.output
    assert "…" not in shown.output
    assert "of ideal" in shown.output
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads(CliRunner().invoke(app, [*options, "--json"]).stdout)
    assert {each["engine"] for each in content["speeds"]} > {"Prunus", "ONNX dense"}
    assert [gain["domain"] for gain in content["gains"]] == ["birds", "signs"]
    assert all(gain["realised"] > 0 for gain in content["gains"])
    assert " cores" in content["machine"]
    assert content["prunus_engine"] == prunus.Predictor(model).engine
    assert shown.output.count(f"Prunus on {content['prunus_engine']}") == 2  # above the table and below it


def _coded(bundle: Bundle) -> Bundle:
    """Return an 8-bit bundle in which everything that can computes with integers."""
    pictures = {domain: drawn.calibration for domain, drawn in drawn_images(bundle, 4, 0).items()}
    return make_coder(bundle, calibrate(bundle, pictures, "largest"), "largest").coded(possible_integers(bundle))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_with_images_every_engine_of_a_domain_has_its_accuracy(
    make_domain: Callable[..., Path], tmp_path: Path, dtype: DType
) -> None:
    classes = {"birds": ("owl", "wren"), "signs": ("go", "stop")}
    for name, labels in classes.items():
        make_domain(f"data/{name}", classes=labels, train=4, test=5)
    backbone = load_backbone(BackboneChoice(name="wrn14_2"))
    net = adapt(backbone, classes, "feature").eval()
    entries = {name: DomainEntry(classes=each, preprocess=backbone.preprocess) for name, each in net.classes.items()}
    recipe = prunus.parse_recipe({"backbone": "wrn14_2", "domains": ["data/birds", "data/signs"], "method": "feature"})
    origin = {"recipe": recipe.model_dump(mode="json"), "step": 1, "total_steps": 1}
    path = tmp_path / "m.prunus"
    bundle = pack(net, backbone, entries, origin)
    write_bundle(path, _coded(bundle) if dtype == "int8" else bundle, dtype)
    found = prunus.bench(path, threads=[1], domains=["signs"], batch=1, rounds=1, data=tmp_path / "data")
    accuracies = {(each.engine, each.domain): each.accuracy for each in found.speeds if each.engine not in OPENVINO}
    measured = prunus.evaluate(path, data=tmp_path / "data").accuracies["signs"]
    assert accuracies["Prunus", "signs"] == measured
    exported, quantized = (accuracies[engine, "signs"] for engine in ("ONNX pruned", "onnxruntime_int8"))
    assert exported is not None
    assert quantized is not None
    assert round(10 * abs(exported - measured)) <= (1 if dtype == "int8" else 0)  # of ten images
    assert round(10 * abs(quantized - measured)) <= 2
    dense = {engine for (engine, domain), accuracy in accuracies.items() if domain is None and accuracy is None}
    assert dense == {"ONNX dense", "PyTorch dense", "onnxruntime_int8"}
    assert [gain.over for gain in found.gains] == ["onnxruntime_int8" if dtype == "int8" else "ONNX dense"]
    assert found.unmeasured is None


def _of_two_domains(folder: Path, make_domain: Callable[..., Path], at: str) -> Path:
    """Write a model file whose recipe says that images of its domains are somewhere, and images in `data`."""
    bundle = random_bundle(varied_graph(0), 12, ("birds", "signs"))
    for name, entry in bundle.manifest.domains.items():
        make_domain(f"data/{name}", classes=entry.classes, train=40, test=2)
    domains = [f"{at}/{name}" for name in bundle.domains]
    recipe = {"backbone": "wrn14_2", "domains": domains, "method": "exact", "budget": 1.0, "seed": 3}
    bundle.manifest.provenance.update({"recipe": recipe, "step": 8, "total_steps": 8})
    write_bundle(folder / "m.prunus", bundle)
    return folder / "m.prunus"


@pytest.fixture
def seen_by_rivals(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Floats]]:
    """Leave out the rivals, and return the images that each of them would learn ranges from."""
    seen: list[Mapping[str, Floats]] = []

    class NoRivals(Rivals):
        def __init__(self, bundle: Bundle, domains: Sequence[str], images: Mapping[str, Floats] | None = None) -> None:
            seen.append(images or {})
            self._makers, self.versions, self.missing = {}, {}, {}

    monkeypatch.setattr("prunus.verbs.bench.Rivals", NoRivals)
    return seen


def test_images_are_found_where_the_recipe_says_unless_only_time_is_asked_for(
    make_domain: Callable[..., Path], tmp_path: Path, seen_by_rivals: list[Mapping[str, Floats]]
) -> None:
    path = _of_two_domains(tmp_path, make_domain, f"{tmp_path}/data")
    found = prunus.bench(path, threads=[1], batch=1, rounds=1)
    assert {each.domain: each.accuracy for each in found.speeds} == prunus.evaluate(path).accuracies
    timed = prunus.bench(path, threads=[1], batch=1, rounds=1, accuracy=False)
    assert (timed.unmeasured, [each.accuracy for each in timed.speeds]) == (None, [None, None])
    assert [set(images) for images in seen_by_rivals] == [{"birds", "signs"}, set()]


def test_missing_images_are_named_and_refused_only_where_they_were_asked_for(
    make_domain: Callable[..., Path], tmp_path: Path, seen_by_rivals: list[Mapping[str, Floats]]
) -> None:
    path = _of_two_domains(tmp_path, make_domain, f"{tmp_path}/gone")
    found = prunus.bench(path, threads=[1], batch=1, rounds=1)
    assert f"{tmp_path}/gone/birds" in str(found.unmeasured)
    assert [each.accuracy for each in found.speeds] == [None, None]
    with pytest.raises(DataError, match="there is no folder"):
        prunus.bench(path, data=tmp_path / "gone")


@pytest.mark.filterwarnings("ignore::prunus.errors.BudgetWarning")
def test_rivals_learn_ranges_from_the_images_of_an_8_bit_file(
    make_domain: Callable[..., Path],
    tmp_path: Path,
    seen_by_rivals: list[Mapping[str, Floats]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = _of_two_domains(tmp_path, make_domain, "data")
    ours: dict[str, Drawn] = {}

    def quantize(bundle: Bundle, images: dict[str, Drawn], *_: object) -> Bundle:
        ours.update(images)
        return _coded(bundle)

    monkeypatch.setattr("prunus.verbs.prune.quantize", quantize)
    prunus.prune(path, tmp_path / "small.prunus", "int8", tmp_path / "data")
    prunus.bench(path, threads=[1], batch=1, rounds=1, data=tmp_path / "data")
    (theirs,) = seen_by_rivals
    assert list(theirs) == list(ours)
    for domain, drawn in ours.items():
        (calibration,) = drawn.calibration.prepared(len(drawn.calibration))
        assert len(calibration) == 60  # half of the training and validation images; the others measure
        np.testing.assert_array_equal(theirs[domain], calibration)
