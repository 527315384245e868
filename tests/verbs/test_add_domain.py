"""Domains come to a finished model and leave it; the others answer as before."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prunus
from prunus.backbone.own import registry
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import read_bundle
from prunus.errors import BackboneError, BundleError, RecipeError, TrainingInterrupted, UnknownNameError
from prunus.training.observers import Observer
from prunus.verbs.train import next_steps
from tests.makers.leaf_models import SETTINGS
from tests.makers.own_networks import SIZE, leaf_net, leaf_recipe, pictures

pytestmark = pytest.mark.slow

LEAF = {"size": SIZE, "mean": [0.5] * 3, "std": [0.25] * 3}
IMAGES = np.random.default_rng(5).standard_normal((4, 3, SIZE, SIZE)).astype(np.float32)


def assert_same_answers(before: Path, after: Path, domains: tuple[str, ...]) -> None:
    first, second = prunus.Predictor(before), prunus.Predictor(after)
    for domain in domains:
        assert np.array_equal(first.logits(IMAGES, domain), second.logits(IMAGES, domain))


def stored(bundle: Bundle) -> int:
    return sum(int(bundle.union(layer).sum()) for layer in bundle.manifest.convs)


def test_an_added_domain_is_learned_and_changes_no_other(base: Path, larger: Path, cars: Path) -> None:
    before, after = read_bundle(base), read_bundle(larger)
    assert after.domains == ("first", "second", "cars")
    assert_same_answers(base, larger, ("first", "second"))
    for name in (name for name in before.arrays if name.startswith(("kernels/", "union/"))):
        assert np.array_equal(before.arrays[name], after.arrays[name])
    predictor = prunus.Predictor(larger)
    answers = [predictor.predict(path, domain="cars")[0].label for path in sorted((cars / "test").rglob("*.png"))]
    assert answers == ["dark"] * 12 + ["light"] * 12


def test_a_changed_file_is_measured_with_all_its_domains(base: Path, larger: Path, cars: Path, tmp_path: Path) -> None:
    for folder in (base.parent / "first", base.parent / "second", cars):
        (tmp_path / folder.name).symlink_to(folder)
    before, after = (prunus.evaluate(path, data=tmp_path).accuracies for path in (base, larger))
    assert after == before | {"cars": 1.0}


def test_a_file_records_how_its_domains_came(larger: Path) -> None:
    origin = read_bundle(larger).manifest.provenance
    assert [domain["name"] for domain in origin["recipe"]["domains"]] == ["first", "second", "cars"]
    own = origin["added"]["cars"]["recipe"]
    assert own["backbone"]["name"] == "model.prunus"
    assert own["training"]["epochs"] == 8


def test_a_changed_file_can_be_inspected_and_described(larger: Path) -> None:
    assert list(prunus.inspect(larger).domains) == ["first", "second", "cars"]
    assert "- added later: cars, in 24 steps\n" in prunus.card(larger)


def test_removing_what_was_added_restores_the_file(base: Path, larger: Path) -> None:
    smaller = prunus.remove_domain(larger, "cars", larger.with_name("smaller.prunus"))
    assert smaller.read_bytes() == base.read_bytes()


def test_a_model_may_grow_for_a_new_domain(base: Path, cars: Path) -> None:
    out = prunus.add_domain(base, cars, base.with_name("grown.prunus"), grow="10%", settings=SETTINGS, observers=[])
    before, after = read_bundle(base), read_bundle(out)
    dense = sum(conv.dense_kernels for conv in before.manifest.convs.values())
    assert 0 < stored(after) - stored(before) <= int(0.1 * dense)
    for layer in before.manifest.convs:
        added = after.union(layer) & ~before.union(layer)
        assert not (after.mask("first", layer) & added).any()
        assert (after.mask("cars", layer) >= added).all()
    assert_same_answers(base, out, ("first", "second"))
    assert after.manifest.provenance["recipe"]["budget"] == pytest.approx(0.6)


def test_a_domain_can_be_added_to_a_run(base: Path, cars: Path) -> None:
    out = base.with_name("from_run.prunus")
    prunus.add_domain(base.parent / "run", cars, out, teacher=None, settings=SETTINGS, observers=[])
    assert_same_answers(base, out, ("first", "second"))


def test_a_domain_can_be_trained_again(larger: Path, cars: Path) -> None:
    out = larger.with_name("replaced.prunus")
    prunus.add_domain(
        larger, cars, out, replace=True, teacher=None, settings=(*SETTINGS, "seed=3"), observers=[], progress=False
    )
    assert read_bundle(out).domains == ("first", "second", "cars")
    assert_same_answers(larger, out, ("first", "second"))
    before, after = (prunus.Predictor(path).logits(IMAGES, "cars") for path in (larger, out))
    assert not np.array_equal(before, after)


def test_a_dataset_can_be_added(base: Path, tmp_path: Path) -> None:
    images, labels = pictures(24)
    own = prunus.OwnDomain(train=list(zip(images, labels, strict=True)), classes=("dark", "light"))
    out = prunus.add_domain(
        base, own, tmp_path / "x.prunus", name="shades", teacher=None, settings=SETTINGS, observers=[]
    )
    assert read_bundle(out).manifest.domains["shades"].classes == ("dark", "light")
    assert_same_answers(base, out, ("first", "second"))
    with pytest.raises(RecipeError, match="a dataset needs the name of its domain"):
        prunus.add_domain(base, own, tmp_path / "y.prunus")


def test_a_network_that_was_passed_to_train_teaches_too(base: Path, tmp_path: Path) -> None:
    """Train on a module that no package registers, and add a domain with it."""
    images, labels = pictures(24)
    domains = {"shades": prunus.OwnDomain(train=list(zip(images, labels, strict=True)), classes=("dark", "light"))}
    run = prunus.train(
        leaf_recipe(backbone={**LEAF, "name": "mine"}), tmp_path / "run", [], backbone=leaf_net(2), domains=domains
    )
    out = tmp_path / "x.prunus"
    prunus.add_domain(
        run, base.parent / "first", out, settings=SETTINGS, observers=[], backbone=leaf_net(2), grow="10%"
    )
    assert read_bundle(out).domains == ("shades", "first")


def test_an_interrupted_addition_continues_in_its_folder(base: Path, cars: Path, tmp_path: Path) -> None:
    first, second = (
        prunus.add_domain(
            base, cars, tmp_path / name, teacher=None, settings=SETTINGS, observers=[], run=tmp_path / "run"
        )
        for name in ("a.prunus", "b.prunus")
    )
    assert first.read_bytes() == second.read_bytes()
    command = f"prunus add-domain {base} {cars} --name cars --teacher none --run {tmp_path / 'run'} --out OUT.prunus"
    with pytest.raises(BundleError, match=f"one domain for model.prunus.* with: {re.escape(command)}"):
        prunus.prune(tmp_path / "run" / "run", tmp_path / "c.prunus")
    assert next_steps(tmp_path / "run" / "run") == f"{command} (with --set, --weights and --replace as before)"


def test_a_name_that_the_model_has_is_refused(base: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="already has a domain 'first'; pass another name, or train it again with"):
        prunus.add_domain(base, base.parent / "first", tmp_path / "x.prunus")


def test_only_a_domain_of_the_model_can_be_replaced(base: Path, cars: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown domain 'cars'; known: first, second"):
        prunus.add_domain(base, cars, tmp_path / "x.prunus", replace=True)


def test_a_folder_is_no_file_to_write(base: Path, cars: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="is a folder; name the file to write"):
        prunus.add_domain(base, cars, tmp_path)
    with pytest.raises(BundleError, match="is a folder; name the file to write"):
        prunus.remove_domain(base, "first", tmp_path)


@pytest.mark.parametrize("options", [{"grow": "5%", "teacher": None}, {}])
def test_the_original_network_must_have_the_weights_that_the_model_was_made_from(
    base: Path, cars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", {})
    prunus.register_backbone("leaf_net", lambda: leaf_net(1), size=SIZE, mean=(0.5,) * 3, std=(0.25,) * 3)
    with pytest.raises(BackboneError, match="was made from leaf_net with other weights than pretrained"):
        prunus.add_domain(base, cars, tmp_path / "x.prunus", settings=SETTINGS, observers=[], **options)


def test_less_than_one_kernel_cannot_be_added(base: Path, cars: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="of 120 kernels is less than one"):
        prunus.add_domain(base, cars, tmp_path / "x.prunus", grow="0.1%", teacher=None, observers=[])


def test_a_file_is_written_into_a_new_folder_and_nothing_else_stays(base: Path, cars: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "x.prunus"
    prunus.add_domain(base, cars, out, teacher=None, settings=SETTINGS, observers=[])
    assert [path.name for path in out.parent.iterdir()] == ["x.prunus"]
    kept = tmp_path / "new" / "y.prunus.run"
    kept.mkdir()
    (kept / "notes.txt").write_text("of the user")
    prunus.add_domain(base, cars, out.with_name("y.prunus"), teacher=None, settings=SETTINGS, observers=[])
    assert [path.name for path in kept.iterdir()] == ["notes.txt"]


def test_a_model_file_may_have_any_name(base: Path, cars: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "model.bin"
    renamed.write_bytes(base.read_bytes())
    outs = [tmp_path / name for name in ("x.prunus", "y.prunus")]
    for model, out in zip((base, renamed), outs, strict=True):
        prunus.add_domain(model, cars, out, teacher=None, settings=SETTINGS, observers=[])
    answers = [prunus.Predictor(out).predict(next(cars.rglob("*.png")), domain="cars") for out in outs]
    assert answers[0] == answers[1]


def test_an_interrupted_addition_is_kept_and_continued(base: Path, cars: Path, tmp_path: Path) -> None:
    class Stop(Observer):
        def stepped(self, step: int, epoch: int) -> None:
            if step == 4:
                os.kill(os.getpid(), signal.SIGINT)

    def add(out: str, observers: list[Observer]) -> Path:
        return prunus.add_domain(base, cars, tmp_path / out, teacher=None, settings=SETTINGS, observers=observers)

    with pytest.raises(TrainingInterrupted, match=r"is kept in .*a\.prunus\.run; the same command continues there"):
        add("a.prunus", [Stop()])
    assert (tmp_path / "a.prunus.run").is_dir()
    first, second = add("a.prunus", []), add("b.prunus", [])
    assert not (tmp_path / "a.prunus.run").exists()
    whole, continued = read_bundle(second), read_bundle(first)
    assert all(np.array_equal(whole.arrays[name], array) for name, array in continued.arrays.items())


def test_a_new_domain_does_not_inherit_the_preprocessing_of_another(base: Path, cars: Path, tmp_path: Path) -> None:
    domains = [
        {"path": str(base.parent / "first"), "statistics": "own", "resize": 24},
        {"path": str(base.parent / "second")},
    ]
    content = {"backbone": "leaf_net", "domains": domains, "training": {"epochs": 1, "batch_size": 8}}
    run = prunus.train(prunus.parse_recipe(content), tmp_path / "run", observers=[])
    found = read_bundle(
        prunus.add_domain(run, cars, tmp_path / "x.prunus", teacher=None, settings=SETTINGS, observers=[])
    ).manifest.domains
    assert found["cars"].preprocess == found["second"].preprocess != found["first"].preprocess


def test_settings_change_the_training_only(base: Path, cars: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="a domain that is added cannot change 'domains'"):
        prunus.add_domain(base, cars, tmp_path / "x.prunus", settings=['domains=["a", "b"]'])
    assert list(tmp_path.iterdir()) == []
