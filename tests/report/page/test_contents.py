"""What a run contains: read from its model file, else from the run, with or without torch."""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

import prunus
from prunus.report.page.contents import file_contents
from prunus.report.page.writing import read_run_and_baselines
from prunus.verbs.report import run_contents
from tests.makers.run_folders import write_measured_model


@pytest.fixture
def trained(make_domain: Callable[..., Path], tmp_path: Path) -> Path:
    """A measured run on two tiny domains, without a model file."""
    domains = [str(make_domain(f"data/{name}", classes=("a", "b"), train=6)) for name in ("birds", "flowers")]
    recipe = {
        "preset": "paper",
        "backbone": "wrn14_2",
        "domains": domains,
        "budget": 0.5,
        "training": {"epochs": 1, "switch_lr": 0.01},
    }
    run = prunus.train(prunus.parse_recipe(recipe), tmp_path / "run", device="cpu")
    (run / "results.json").write_text(prunus.evaluate(run, device="cpu").model_dump_json())
    return run


@pytest.mark.slow
def test_layers_are_read_from_the_run_where_there_is_no_model_file(trained: Path) -> None:
    (run,) = read_run_and_baselines(trained, "run", run_contents)
    assert run.notes == ()
    costs = run.contents.costs
    assert costs is not None
    for name, domain in run.results.domains.items():
        assert costs.usage(name) == pytest.approx(domain.usage)
    assert costs.union() == pytest.approx(run.results.union)
    assert run.contents.sharing["birds"]["birds"] == 1
    assert run.versions == {"prunus": prunus.__version__, "torch": version("torch").split("+")[0]}
    prunus.prune(trained, trained / "model.prunus")
    of_file = file_contents(trained / "model.prunus", run.results)
    assert of_file.costs is not None
    assert [(layer.name, layer.used) for layer in of_file.costs.layers] == [
        (layer.name, layer.used) for layer in costs.layers
    ]
    assert of_file.bytes_by_part
    assert of_file.versions["prunus"] == prunus.__version__


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["damaged", "stale"])
def test_an_unusable_model_file_is_noted_and_the_run_is_read_instead(fault: str, trained: Path) -> None:
    if fault == "damaged":
        (trained / "model.prunus").write_bytes(b"no model")
    else:
        prunus.prune(trained, trained / "model.prunus")
        content = json.loads((trained / "results.json").read_text())
        content["domains"]["birds"]["usage"] -= 0.02
        (trained / "results.json").write_text(json.dumps(content))
    (run,) = read_run_and_baselines(trained, "run", run_contents)
    assert run.contents.costs is not None
    (note,) = run.notes
    assert note.startswith("model.prunus is " if fault == "damaged" else "model.prunus does not belong")
    assert note.count("prunus prune") == 1
    assert str(trained.parent) not in prunus.write_report(trained, trained / "report.html").page.read_text()


@pytest.mark.parametrize(
    ("missing", "outcome"),
    [("torch", "written"), ("jinja2", "pip install 'prunus[report]'"), ("matplotlib", "pip install 'prunus[report]'")],
)
def test_the_page_needs_no_torch_and_says_what_else_is_missing(missing: str, outcome: str, tmp_path: Path) -> None:
    folder = write_measured_model(tmp_path / "a")
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['prunus', 'report', {str(folder)!r}, '--out', "
        f"{str(tmp_path / 'r.html')!r}]; from prunus.cli.app import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (outcome == "written") == (tmp_path / "r.html").exists(), done.stderr
    assert outcome == "written" or outcome in done.stderr
