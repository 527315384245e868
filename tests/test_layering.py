"""Which room may import which: one table, checked against the source and the architecture page."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import prunus
from prunus.backbone.zoo import ZOO
from prunus.bundle.file import read_bundle
from prunus.measure.bundle_cost import bundle_costs
from prunus.methods.table import METHODS

ROOT = Path(prunus.__file__).parent
ARCHITECTURE = Path(__file__).parents[1] / "docs" / "architecture.md"
OPEN = {
    "amounts",
    "arrays",
    "errors",
    "files",
    "names",
    "reading",
    "uncertainty",
    "version",
}  # every room may import these
MOST_FILES = 12
CROWDED = {"methods", "onnx", "verbs"}  # one file per command or method; onnx: to be divided

# room: the rooms that it imports, besides the open ones
TABLE = """
amounts:
arrays:
config: granularity presets
errors:
granularity:
run_folder:
version:
benchmarks:
catalog:
files:
names:
reading:
terminal:
graph:
images:
losses:
parallel:
presets:
samples:
sealed:
recipes: benchmarks catalog config presets
bundle: graph images
probabilities: images
uncertainty:
torch_graph: bundle graph
editing: bundle config graph images
backbone: bundle config editing images samples torch_graph
data: benchmarks config images samples
integers: bundle graph
runtime: bundle graph images integers probabilities
masks: backbone granularity
measure: benchmarks bundle config data granularity graph images probabilities runtime
onnx: bundle graph integers runtime
lowering: backbone bundle editing granularity graph masks torch_graph
methods: backbone catalog config granularity losses lowering masks measure presets
report: bundle catalog images measure recipes run_folder terminal
serving: bundle config images measure probabilities runtime samples
budgets: bundle config graph images lowering masks measure
timing: backbone bundle config lowering masks measure methods onnx runtime
learning: config data images losses masks methods parallel probabilities sealed
checkpoints: backbone bundle config images learning parallel presets recipes run_folder sealed
adding: bundle checkpoints config editing graph images learning masks recipes torch_graph
training: adding backbone budgets checkpoints config data granularity images learning losses lowering masks measure
    methods parallel recipes run_folder torch_graph
extending: adding backbone bundle checkpoints config editing methods progress recipes run_folder training
evaluation: backbone budgets bundle catalog checkpoints config data extending granularity images learning lowering
    masks measure methods presets probabilities recipes run_folder runtime timing training
comparison: backbone config data evaluation losses measure methods presets recipes report run_folder timing training
drafting: config data images training
pretraining: backbone benchmarks checkpoints config data evaluation methods parallel recipes run_folder training
progress: report run_folder terminal training
quantizing: bundle config data evaluation graph images integers runtime torch_graph
alternatives: backbone bundle config data evaluation learning masks measure parallel quantizing recipes
    run_folder runtime timing training
verbs: adding alternatives backbone benchmarks bundle catalog comparison config data drafting editing evaluation
    extending graph measure methods onnx parallel pretraining progress quantizing recipes report run_folder runtime
    samples serving timing torch_graph training
cli: backbone benchmarks bundle catalog config data measure onnx parallel progress recipes report run_folder runtime
    serving terminal verbs
__main__: cli
"""
IMPORTS = {
    room: set(names.split()) for room, names in re.findall(r"^(\w+):((?: +\w+|\n {4}\w+)*)$", TABLE, re.MULTILINE)
}

# every other room must work without torch
WITH_TORCH = {
    *("losses", "backbone", "data", "masks", "lowering", "methods", "parallel", "timing", "learning", "training"),
    *("budgets", "checkpoints", "evaluation", "comparison", "drafting", "pretraining", "verbs", "extending"),
    *("torch_graph", "adding", "quantizing", "alternatives"),
}


def _modules(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py")) if (ROOT / room).is_dir() else [ROOT / f"{room}.py"]


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"prunus.{alias.name}" for alias in node.names} if node.module == "prunus" else {node.module}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def _imported_rooms(room: str) -> set[str]:
    names = {name for path in _modules(room) for name in _imports(path)}
    return {name.split(".")[1] for name in names if name.startswith("prunus.")} - {room}


def _rooms() -> set[str]:
    files = {path.stem for path in ROOT.glob("*.py") if path.stem != "__init__"}
    return files | {path.name for path in ROOT.iterdir() if any(path.glob("*.py"))}


def test_the_table_lists_every_room() -> None:
    assert set(IMPORTS) == _rooms()


@pytest.mark.parametrize("room", IMPORTS)
def test_a_room_imports_what_the_table_says_and_nothing_else(room: str) -> None:
    assert _imported_rooms(room) - OPEN == IMPORTS[room]


def test_no_room_imports_in_a_circle() -> None:
    order = list(TopologicalSorter({room: _imported_rooms(room) for room in IMPORTS}).static_order())
    assert order.index("errors") < order.index("verbs") < order.index("cli")


def test_only_rooms_with_torch_import_it() -> None:
    def needs_torch(room: str) -> bool:
        return any(name.split(".")[0] in {"torch", "timm"} for path in _modules(room) for name in _imports(path))

    assert {room for room in IMPORTS if needs_torch(room)} <= WITH_TORCH
    assert all(needs_torch(room) or IMPORTS[room] & WITH_TORCH for room in WITH_TORCH)


def test_every_module_of_a_room_without_torch_can_be_imported_without_it() -> None:
    paths = [path for room in set(IMPORTS) - WITH_TORCH - {"__main__"} for path in _modules(room)]
    modules = sorted(".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in paths)
    assert "prunus.onnx.files" in modules
    _without_torch("import importlib\nfor name in sys.argv[1:]:\n    importlib.import_module(name)", *modules)


def test_without_torch_a_command_says_what_to_install() -> None:
    done = _without_torch("from prunus.cli.app import main; main()", "zoo", "timm/resnet50", status=1)
    assert done.stderr.count("\n") == 1
    assert "pip install 'prunus[train]'" in done.stderr


def test_without_torch_a_model_file_is_opened_to_be_measured() -> None:
    model = ARCHITECTURE.parents[1] / "tests" / "golden" / "model_format_3" / "trained.prunus"
    code = "import pathlib, prunus\nfrom prunus.evaluation.subject import open_subject\n"
    done = _without_torch(
        f"{code}assert prunus.evaluate\nprint(open_subject(pathlib.Path({str(model)!r})).costs.union())"
    )
    assert float(done.stdout) == bundle_costs(read_bundle(model)).union()


def test_without_torch_methods_and_bundled_backbones_are_listed() -> None:
    methods = _without_torch("from prunus.cli.app import main; main()", "methods").stdout
    assert all(f" {name} " in methods for name in METHODS)
    backbones = _without_torch("from prunus.cli.app import main; main()", "zoo").stdout
    assert all(f" {name} " in backbones for name in ZOO)
    assert "pip install 'prunus[train]'" in backbones


def _without_torch(code: str, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    blocked = f"import sys\nsys.modules |= {{'torch': None, 'timm': None}}\n{code}"
    done = subprocess.run([sys.executable, "-c", blocked, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done


def test_no_room_has_more_files_than_a_reader_can_survey() -> None:
    folders = {path.parent for path in ROOT.glob("*/**/*.py")}
    crowded = {folder for folder in folders if len(list(folder.glob("*.py"))) > MOST_FILES}
    assert {folder.relative_to(ROOT).as_posix() for folder in crowded} == CROWDED


def test_the_architecture_page_lists_the_rooms_as_they_are() -> None:
    blocks = re.findall(r"^```text\n(.*?)^```$", ARCHITECTURE.read_text(), re.MULTILINE | re.DOTALL)
    rows = dict(line.split(None, 1) for line in blocks[0].splitlines())
    folders = {f"{room}/" if (ROOT / room).is_dir() else f"{room}.py" for room in IMPORTS}
    assert set(rows) == folders - {"__main__.py"}
    assert not {name for name, row in rows.items() if "(no torch)" in row and name.rstrip("/") in WITH_TORCH}
    beside = {line.split()[0] for line in blocks[1].splitlines()}
    assert all((ARCHITECTURE.parents[1] / name).is_dir() for name in beside)


def test_every_public_name_has_a_home() -> None:
    names = [name for name in dir(prunus) if not name.startswith("_")]
    assert "Predictor" in names
    assert all(getattr(prunus, name) is not None for name in names)
