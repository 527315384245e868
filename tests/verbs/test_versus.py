"""All alternatives on two tiny domains: made once, measured as files, and timed again at every call."""

from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest

import prunus
from prunus.alternatives.table import ALTERNATIVES
from prunus.errors import MissingExtraError, RecipeError, UnknownNameError
from prunus.measure.alternatives.results import Versus
from prunus.report.alternatives.tables import to_markdown
from prunus.run_folder import RunFolder
from prunus.training.observers import Observer
from prunus.verbs.versus import versus
from tests.makers.own_networks import CLASSES, leaf_net, leaf_recipe, pictures

pytestmark = pytest.mark.slow  # trains
DOMAINS = {
    name: prunus.OwnDomain(train=pictures(24, seed), test=pictures(8, seed + 9), classes=CLASSES)
    for seed, name in enumerate(("shades", "tints"))
}
RECIPE = leaf_recipe([f"python:{name}" for name in DOMAINS], training={"epochs": 2, "batch_size": 8, "lr": 0.05})
TITLES: list[str] = []


class Counting(Observer):
    def __init__(self, title: str) -> None:
        self.title = title

    def started(self, step: int, total_steps: int) -> None:
        TITLES.append(self.title)


def _watch(title: str) -> Sequence[Observer]:
    return [Counting(title)]


def _versus(out: Path, **more: object) -> Versus:
    own = {"backbone": leaf_net(), "domains": DOMAINS}
    return versus(RECIPE, out, device="cpu", rounds=2, observers=_watch, **own | more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("versus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        _versus(folder)
    return folder


@pytest.fixture(scope="module")
def results(out: Path) -> Versus:
    return Versus.model_validate_json((out / "versus.json").read_bytes())


def test_every_alternative_is_measured(results: Versus) -> None:
    assert [row.name for row in results.rows] == list(ALTERNATIVES)
    assert results.failed == {}
    assert results.images == {"shades": 8, "tints": 8}
    for row in results.rows:
        assert list(row.accuracies) == list(row.latencies) == list(row.macs) == list(DOMAINS)
        assert row.mean_accuracy > 0.7
        assert row.milliseconds > 0


def test_bytes_are_those_of_what_is_shipped(results: Versus, out: Path) -> None:
    found = {row.name: row.total_bytes for row in results.rows}
    for name in ("finetuned", "probe", "pruned"):
        files = list((out / "seed0" / name).glob("*.onnx"))
        assert len(files) == (2 if name == "finetuned" else 1)
        assert found[name] == sum(file.stat().st_size for file in files)
    adapters = list((out / "seed0" / "lora").glob("*.safetensors"))
    assert len(adapters) == 3
    assert found["lora"] == sum(file.stat().st_size for file in adapters)
    for name in ("ours", "ours_int8"):
        assert found[name] == (out / "seed0" / name / "model.prunus").stat().st_size


def test_dense_alternatives_have_the_macs_of_the_network_and_the_cut_one_those_of_ours(results: Versus) -> None:
    dense = 256 * (3 * 8 * 9 + 8 * 12 * 9)
    macs = {row.name: set(row.macs.values()) for row in results.rows}
    assert macs["finetuned"] == macs["probe"] == macs["lora"] == {dense}
    assert macs["ours"] == macs["ours_int8"]
    (cut,) = macs["pruned"]
    assert sum(macs["ours"]) / len(macs["ours"]) <= cut < dense


def test_eight_bits_are_in_the_files_that_say_so(out: Path) -> None:
    kinds = {
        name: {node.op_type for node in onnx.load(next((out / "seed0" / name).glob("*.onnx"))).graph.node}
        for name in ("finetuned", "probe", "pruned", "lora")
    }
    assert all("QuantizeLinear" in kinds[name] for name in ("finetuned", "probe", "pruned"))
    assert "QuantizeLinear" not in kinds["lora"]


def test_the_probe_is_one_file_and_fine_tuned_networks_differ(out: Path) -> None:
    outputs = [value.name for value in onnx.load(out / "seed0" / "probe" / "all_domains.onnx").graph.output]
    assert outputs == list(DOMAINS)
    files = [path.read_bytes() for path in sorted((out / "seed0" / "finetuned").glob("*.onnx"))]
    assert files[0] != files[1]


def test_what_is_finished_is_not_made_again_and_a_later_call_adds_seeds(out: Path, results: Versus) -> None:
    TITLES.clear()
    again = _versus(out, only="finetuned")
    assert TITLES == []
    assert [row.name for row in again.rows] == ["finetuned", "ours", "ours_int8"]
    kept = {row.name: row for row in results.rows}
    assert all(row.accuracies == kept[row.name].accuracies for row in again.rows)
    (out / "seed0" / "probe" / "shipped.json").write_text("{")
    more = _versus(out, only=["probe"])
    assert [title.split()[1] for title in TITLES] == []  # its run is finished too: only the file is written again
    assert more.rows[0].accuracies == kept["probe"].accuracies


def test_the_tables_are_made_from_the_raw_results(out: Path) -> None:
    content = Versus.model_validate_json((out / "versus.json").read_bytes())
    assert (out / "versus.md").read_text() == to_markdown(content)


def test_another_budget_has_rows_of_its_own(out: Path) -> None:
    more = _versus(out, only=["ours"], budgets=[0.8], seeds=[0])
    names = [row.name for row in more.rows]
    assert names == ["ours", "ours-0.8", "ours_int8", "ours_int8-0.8"]
    sizes = {row.name: row.total_bytes for row in more.rows}
    assert sizes["ours-0.8"] > sizes["ours"]


def test_fine_tuned_networks_that_teach_ours_are_not_trained_twice(tmp_path: Path) -> None:
    TITLES.clear()
    own = {"backbone": leaf_net(), "domains": DOMAINS, "device": "cpu", "rounds": 2, "observers": _watch}
    recipe = RECIPE.model_copy(update={"teacher": "finetune"})
    found = versus(recipe, tmp_path / "out", only="finetuned", budgets=[1.0], **own)  # type: ignore[arg-type]
    assert len(TITLES) == 3  # the teacher, and ours with each budget
    assert RunFolder(tmp_path / "out" / "seed0" / "trained").teacher.is_dir()
    assert not RunFolder(tmp_path / "out" / "seed0" / "trained-1").teacher.exists()
    assert not (tmp_path / "out" / "seed0" / "finetuned" / "run").exists()
    (row,) = (row for row in found.rows if row.name == "finetuned")
    assert row.mean_accuracy > 0.7


def test_what_cannot_be_compared_is_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownNameError, match="unknown alternative 'loar'; did you mean 'lora'"):
        _versus(tmp_path / "out", only="loar")
    (tmp_path / "file").write_text("")
    with pytest.raises(RecipeError, match="file is a file; name a folder"):
        _versus(tmp_path / "file")
    finetuned = RECIPE.model_copy(update={"method": prunus.parse_recipe({**_CONTENT, "method": "taps"}).method})
    with pytest.raises(RecipeError, match="'taps' makes no model file"):
        versus(finetuned, tmp_path / "out", device="cpu")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"onnx, which is not installed.*prunus\[versus\]"):
        _versus(tmp_path / "out")
    assert not (tmp_path / "out").exists()


_CONTENT: dict[str, object] = {"backbone": "wrn14_2", "domains": ["a"]}


def test_an_alternative_that_does_not_fit_the_network_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prunus.alternatives.lora.adaptable_layers", lambda features: [])
    found = _versus(tmp_path / "out", only="lora")
    assert list(found.failed) == ["lora"]
    assert "finds no layer" in found.failed["lora"]
    assert [row.name for row in found.rows] == ["ours", "ours_int8"]
