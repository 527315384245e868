"""The samples are a distribution of their own; where it is missing, one line says what to install."""

import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from prunus.backbone.zoo import ZOO, load_backbone
from prunus.cli.app import app
from prunus.config import BackboneChoice
from prunus.data.sources import open_source
from prunus.errors import MissingExtraError
from prunus.methods.table import choose_method
from prunus.recipes import load_recipe
from prunus.samples import bundled, demo_names
from prunus.serving.routes.examples import read_examples
from prunus.verbs.demo import stored_results
from prunus.version import __version__

ROOT = Path(__file__).parents[1]
if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.fixture
def without_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prunus_samples", None)


def test_every_kind_of_sample_is_there() -> None:
    assert demo_names() == ["characters", "clothing", "fashion", "fruits", "signs"]
    assert all(zipfile.is_zipfile(bundled("domains") / f"{name}.zip") for name in demo_names())
    assert all((bundled("backbones") / entry.file).is_file() for entry in ZOO.values())
    assert [domain.name for domain in load_recipe(bundled("recipes") / "demo.toml").domains] == demo_names()


def test_the_stored_results_are_of_the_demos_domains_and_name_commands_that_exist() -> None:
    stored = stored_results()
    assert [result.results.method for result in stored] == ["finetune", "union"]
    for result in stored:
        assert sorted(result.results.domains) == demo_names()
        assert result.results.steps[0] == result.results.steps[1]
        train, recipe = result.commands[0].split()[1:3]
        assert train == "train"
        assert choose_method(load_recipe(ROOT / recipe)).name in (result.results.method, "exact")
        without_limits = result.results.model_copy(update={"limits": ()})  # as shares, which were stored too
        assert result.results.over_budget == without_limits.over_budget
        assert result.results.budget_kept is (None if result.results.budget is None else not without_limits.over_budget)


def test_both_distributions_have_one_version_and_the_extra_demo_names_the_samples() -> None:
    samples = tomllib.loads((ROOT / "samples/pyproject.toml").read_text())["project"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert samples["version"] == __version__
    assert extras["demo"] == [samples["name"]]


def test_the_package_itself_holds_no_images_and_no_weights() -> None:
    sizes = {path: path.stat().st_size for path in (ROOT / "src/prunus").rglob("*") if path.is_file()}
    others = {path: size for path, size in sizes.items() if path.suffix not in {".py", ".pyc", ".so", ".pyd"}}
    assert sum(others.values()) < 200_000, sorted(others, key=lambda path: others[path])[-3:]


@pytest.mark.usefixtures("without_samples")
def test_without_the_samples_the_error_says_what_needs_them_and_what_to_install() -> None:
    install = r"needs prunus-samples, which is not installed; install it with: pip install 'prunus\[demo\]'"
    with pytest.raises(MissingExtraError, match=r"a bundled backbone \(wrn14_2, wrn28_4\) " + install):
        load_backbone(BackboneChoice(name="wrn14_2"))
    with pytest.raises(MissingExtraError, match=r"a bundled domain \(demo:NAME\) " + install):
        open_source("demo:signs")
    with pytest.raises(MissingExtraError, match=r"a bundled domain \(demo:NAME\) " + install):
        read_examples("demo:", ["signs"])


@pytest.mark.usefixtures("without_samples")
def test_the_demo_without_the_samples_ends_with_one_line() -> None:
    with pytest.raises(MissingExtraError, match=r"^the demo needs prunus-samples"):
        CliRunner().invoke(app, ["demo"], catch_exceptions=False)


@pytest.mark.usefixtures("without_samples")
def test_a_network_with_random_weights_needs_no_samples() -> None:
    assert load_backbone(BackboneChoice(name="wrn14_2", weights="random")).probe.num_features == 128
