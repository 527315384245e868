"""Every code block of the README and the docs runs, page by page, in a folder with a small dataset."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import pytest

import prunus
from benchmarks.runtime_speed import LEAST_GAIN, TARGETS
from prunus.config import BackboneChoice, DomainChoice, Evaluation, MethodChoice, Recipe, Sharing, Training
from tests.conftest import write_domain
from tests.makers.warm_commands import warm_commands

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BEGIN_WITH_DATA = {
    "README.md",
    "data.md",
    "recipes.md",
    "benchmarks.md",
    "methods.md",
    "architecture.md",
    "pretraining.md",
    "tutorial.md",
}  # no run yet
AFTER_THE_DEMO = {"eight-bits.md"}
DEMO_RUN = ROOT / "tests" / "golden" / "checkpoint_format_3" / "run"  # of two of its domains
README_RECIPE = dict(BLOCK.findall((ROOT / "README.md").read_text()))["toml"]


PROGRAMS = Path(sys.executable).parent


def _run(command: list[str], folder: Path, programs: Path = PROGRAMS) -> None:
    path = os.pathsep.join([str(programs), str(PROGRAMS), os.environ["PATH"]])
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def _run_shell(block: str, folder: Path, programs: Path) -> None:
    for line in filter(None, (line.partition("  #")[0].strip() for line in block.splitlines())):
        if line.startswith("make "):
            _run(["make", "--dry-run", *line.split()[1:]], ROOT)  # running it would start these tests again
        elif not line.startswith(("git clone", "python3 -m venv", "pip install")):  # these need network access
            _run(["bash", "-c", line], folder, programs)


def _shortened(recipe: str) -> str:
    """Train a recipe that leaves its length open for one epoch; so few images would be repeated 300 times."""
    return recipe if "[training]" in recipe else f"{recipe}\n[training]\nepochs = 1\n"


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with a `prunus` and a `python` that do not import torch anew for each command."""
    with warm_commands(tmp_path_factory.mktemp("warm")) as folder:
        yield folder


@pytest.fixture(scope="module")
def trained(warm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the README's recipe, a small dataset, a run of one epoch and its model file."""
    folder = tmp_path_factory.mktemp("trained")
    for name, classes in (("birds", ("owl", "wren")), ("flowers", ("rose", "tulip"))):
        write_domain(folder / "data" / name, classes, train=10)
    shutil.copy(folder / "data" / "flowers" / "test" / "rose" / "0.png", folder / "rose.jpg")
    (folder / "recipe.toml").write_text(_shortened(README_RECIPE))
    _run(["prunus", "train", "recipe.toml", "--out", "run"], folder, warm)
    _run(["prunus", "prune", "run", "--out", "model.prunus"], folder, warm)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=lambda page: page.name)
def test_every_code_block_runs(page: Path, trained: Path, warm: Path, tmp_path: Path) -> None:
    kept = ["data", "rose.jpg"] if page.name in BEGIN_WITH_DATA else [path.name for path in trained.iterdir()]
    for name in kept:
        (shutil.copytree if (trained / name).is_dir() else shutil.copy)(trained / name, tmp_path / name)
    if page.name in AFTER_THE_DEMO:
        shutil.copytree(DEMO_RUN, tmp_path / "runs" / "demo")
    for kind, block in BLOCK.findall(page.read_text()):
        if kind == "toml":
            (tmp_path / block.splitlines()[0].removeprefix("# ")).write_text(_shortened(block))
        elif kind == "python":
            _run(["python", "-W", "error", "-c", block], tmp_path, warm)
        elif kind == "sh":
            _run_shell(block, tmp_path, warm)
        else:
            assert kind == "text"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["bash", "-c", "prunus train missing.toml > shown.txt"],
        ["python", "-W", "error", "-c", "import warnings\nwarnings.warn('old')"],
        ["python", "-W", "error", "-c", "raise SystemExit('a reason')"],
        ["python", "-W", "error", "-c", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"],
    ],
)
def test_a_block_that_fails_is_noticed(command: list[str], warm: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="== 0"):
        _run(command, tmp_path, warm)
    _run(["python", "-W", "error", "-c", "import prunus"], tmp_path, warm)  # the next one runs all the same


def test_the_recipe_page_spells_out_every_key() -> None:
    text = (ROOT / "docs" / "recipes.md").read_text()
    keys = [
        key
        for model in (Recipe, BackboneChoice, MethodChoice, DomainChoice, Sharing, Training, Evaluation)
        for key in model.model_fields
    ]
    tables = {"method", "sharing", "training", "evaluation", "backbone", "domains"}
    keys = [key for key in keys if key not in ("benchmark", "root")]  # those contradict a list of domains: in the text
    assert "`backbone.original`" in text  # of model files only
    keys.remove("original")
    assert [key for key in keys if key not in tables and not re.search(rf"^{key} = ", text, re.MULTILINE)] == []
    assert [table for table in tables if f"[{table}]" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", BLOCK.sub("", page.read_text()))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_shows_what_the_demonstration_wrote() -> None:
    results = json.loads((ROOT / "docs" / "results" / "demo" / "results.json").read_text())
    text = (ROOT / "README.md").read_text()
    shown = {
        "mean": f"**{100 * results['mean_accuracy']:.1f} %**",
        "feature": f"{100 * results['baselines']['feature']['mean_accuracy']:.1f} %",
        "params": f"**{100 * results['params_ratio']:.1f} %**",
        "macs": f"**{100 * results['macs_ratio']:.1f} %**",
        "union": f"{100 * results['union']:.1f} %**",
        "bytes": f"**{results['model_bytes'] / 1e6:.2f} MB**",
    }
    assert [name for name, value in shown.items() if value not in text] == []
    seeds = json.loads((ROOT / "docs" / "results" / "demo" / "seeds.json").read_text())["seeds"]
    first, second, third = (f"{100 * seed['mean_accuracy']:.1f}" for seed in seeds)
    assert f"{first}, {second} and {third} %" in text
    assert all(seed["budget_kept"] and seed["union"] <= 0.25 for seed in seeds)


def test_the_page_of_the_exact_method_shows_what_was_measured() -> None:
    text = (ROOT / "docs" / "exact.md").read_text()
    results = json.loads((ROOT / "docs" / "results" / "exact" / "study_domains.json").read_text())["results"]
    means: dict[str, list[float]] = {row: [] for row in sorted({result["row"] for result in results})}
    for result in results:
        means[result["row"]].append(100 * result["mean_accuracy"])
    assert all(len(seeds) == 3 for seeds in means.values())
    assert [row for row, seeds in means.items() if f"{sum(seeds) / 3:.2f} %" not in text] == []
    units = json.loads((ROOT / "docs" / "results" / "exact" / "budget_units.json").read_text())["rows"]
    assert [row["name"] for row in units if f"{row['bytes']:,} bytes" not in text] == []


def test_the_headline_and_the_cost_of_filters_are_those_that_were_measured() -> None:
    folder = ROOT / "docs" / "results" / "exact"
    results = json.loads((folder / "study_domains.json").read_text())["results"]
    percents = {
        row: f"{100 * mean(result['mean_accuracy'] for result in results if result['row'] == row):.1f} %"
        for row in ("taught-0.25", "finetune", "exact-0.25")
    }
    readme, page = ((ROOT / name).read_text() for name in ("README.md", "docs/exact.md"))
    assert f"({percents['taught-0.25']} and {percents['finetune']}, three seeds)" in readme
    assert f"Without it the same model reaches {percents['exact-0.25']}" in readme
    assert 'teacher = "finetune"' in readme
    assert f"**Without a teacher, `exact` reaches {percents['exact-0.25']}**" in page
    units = {row["name"]: row["accuracy"] for row in json.loads((folder / "budget_units.json").read_text())["rows"]}
    points = 100 * (units["kernels at equal MACs"] - units["filters"])
    assert f"whole filters were {points:.1f} points less accurate" in (ROOT / "docs" / "budget.md").read_text()


def test_the_model_file_page_shows_the_sizes_and_speeds_that_were_measured() -> None:
    text = (ROOT / "docs" / "model-file.md").read_text()
    rows = json.loads((ROOT / "docs" / "results" / "benchmarks" / "file_size.json").read_text())["rows"]
    for row in rows:
        ratio = row["file"] / row["bound"]
        assert f"| {row['run']} | {row['dtype']} | {row['file']:,} | {row['bound']:,} | {ratio:.4f} |" in text
        assert ratio <= 1.02
        assert row["file"] < row["dense"] or row["run"] == "union-1"
    speed = json.loads((ROOT / "docs" / "results" / "benchmarks" / "onnx_speed.json").read_text())
    assert f"{speed['speed_up']:.2f} times as fast" in text
    assert speed["speed_up"] >= 1.6
    assert abs(speed["macs_ratio"] - 0.5) < 0.01
    fuzzed = json.loads((ROOT / "docs" / "results" / "benchmarks" / "fuzz_model_file.json").read_text())
    assert fuzzed["count"] == sum(sum(counts.values()) for counts in fuzzed["outcomes"].values()) == 10_000


def test_the_runtime_page_shows_the_memory_that_was_measured_and_it_is_as_little_as_wanted() -> None:
    text = (ROOT / "docs" / "runtime.md").read_text()
    rows = json.loads((ROOT / "docs" / "results" / "benchmarks" / "loaded_memory.json").read_text())["rows"]
    for row in rows:
        sizes = [row[key] / 1e6 for key in ("file", "loaded", "used", "activations")]
        file, loaded, used, values = sizes
        assert loaded < 1.5 * file + (1 if file < 5 else 0)
        assert used < 1.5 * file + values + 2
        shown = f"{file:.1f} | {loaded:.1f} | {loaded / file:.2f} × | {used - loaded:.1f} | {values:.1f} |"
        line = f"| `{row['network']}` | {row['off']:.0%} | {row['dtype']} | {shown}"
        assert row["dtype"] == "bfloat16" or line in text


def test_the_runtime_page_shows_what_was_measured_and_it_is_as_fast_as_wanted() -> None:
    text = (ROOT / "docs" / "runtime.md").read_text()
    networks = json.loads((ROOT / "docs" / "results" / "benchmarks" / "runtime_speed.json").read_text())["networks"]
    assert networks.keys() == TARGETS.keys()
    for name, rows in networks.items():
        for row, least in zip(rows, TARGETS[name], strict=True):
            assert row["speed_up"] >= least
            shown = f"| `{name}` | {row['sparsity']:.0%} | {row['dense_ms']:.1f} | {row['ours_ms']:.1f} |"
            assert f"{shown} {row['speed_up']:.2f} × | {row['gain_of_two_threads']:.2f} × |" in text
            assert row["gain_of_two_threads"] >= LEAST_GAIN
    demo = json.loads((ROOT / "docs" / "results" / "benchmarks" / "demo_speed.json").read_text())
    gains = [gain for gain in demo["gains"] if gain["threads"] == 1]
    for gain in gains:
        assert f"| {gain['domain']} | {gain['promised']:.2f} × | {gain['speed_up']:.2f} × |" in text
    assert sum(gain["realised"] for gain in gains) / len(gains) >= 0.75
    times: dict[str, list[float]] = {speed["engine"]: [] for speed in demo["speeds"]}
    for speed in demo["speeds"]:
        if speed["threads"] == 1:
            times[speed["engine"]].append(speed["latency"]["median_ms"])
    readme = (ROOT / "README.md").read_text()
    assert f"{times['ONNX dense'][0]:.2f} ms in ONNX Runtime, {times['PyTorch dense'][0]:.2f} ms in PyTorch" in readme
    assert f"**{sum(times['Prunus']) / len(times['Prunus']):.2f} ms**" in readme


def test_the_runtime_page_names_every_instruction_set_that_the_engine_can_be_set_to() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "native").glob("kernels_*.cpp"))
    engines = re.findall(r'make_table\("(\w+)"', sources)
    text = (ROOT / "docs" / "runtime.md").read_text()
    assert len(engines) == 7
    assert [name for name in engines if f"`{name}`" not in text] == []


def test_the_reference_page_shows_every_public_name() -> None:
    page = (ROOT / "docs" / "reference.md").read_text()
    names = [name for name in dir(prunus) if not name.startswith("_")]
    assert len(names) > 40
    missing = [name for name in names if not re.search(rf"\bprunus\.{name}\b(?!\.)", page) and f"`{name}`" not in page]
    assert missing == []


def test_every_file_that_the_architecture_page_names_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    names = re.findall(r"`((?:\w+/)*\w+\.py)`", text)
    folders = (ROOT, ROOT / "src" / "prunus", ROOT / "src" / "prunus" / "methods")
    assert len(names) > 30
    assert [name for name in names if not any((folder / name).is_file() for folder in folders)] == []
