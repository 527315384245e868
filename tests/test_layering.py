"""Who may import whom: the table that keeps the rooms apart, checked against the source."""

import ast
import subprocess
import sys
from pathlib import Path

import prunus

ROOT = Path(prunus.__file__).parent

LEARNING = {"config", "recipes", "data", "images", "probabilities", "backbone", "masks", "methods"}

# room -> rooms it may import; `errors`, `files` and `version` are open to all, nobody imports `cli`
MAY_IMPORT: dict[str, set[str]] = {
    "__main__": {"cli"},
    "arrays": set(),
    "errors": set(),
    "version": set(),
    "files": {"errors"},
    "benchmarks": {"errors"},
    "config": set(),
    "recipes": {"benchmarks", "config"},
    "images": {"errors"},
    "probabilities": {"images"},
    "losses": {"errors"},
    "samples": set(),
    "data": {"benchmarks", "config", "images", "samples"},
    "backbone": {"config", "images", "samples"},
    "masks": {"backbone"},
    "methods": {"masks", "backbone", "config", "measure", "losses"},
    "measure": {"benchmarks", "bundle", "config", "data", "graph", "images", "probabilities", "runtime"},
    "run_folder": set(),
    "training": LEARNING | {"losses", "measure", "run_folder"},
    "evaluation": {
        *("backbone", "bundle", "config", "data", "lowering", "measure", "methods", "probabilities", "recipes"),
        *("runtime", "timing", "training"),
    },
    "comparison": {
        *("backbone", "config", "data", "evaluation", "losses", "measure", "methods", "recipes", "report"),
        *("run_folder", "timing", "training"),
    },
    "timing": {"backbone", "bundle", "config", "lowering", "masks", "measure", "methods", "onnx", "runtime"},
    "graph": set(),
    "bundle": {"graph", "images"},
    "lowering": {"backbone", "masks", "graph", "bundle"},
    "runtime": {"graph", "bundle", "images", "probabilities"},
    "onnx": {"backbone", "masks", "lowering", "graph", "bundle", "runtime", "images"},
    "serving": {"bundle", "config", "images", "measure", "probabilities", "runtime", "samples"},
    "report": {"bundle", "images", "measure", "recipes", "run_folder"},
    "verbs": LEARNING
    | {"benchmarks", "training", "measure", "lowering", "graph", "bundle", "runtime", "report", "losses", "onnx"}
    | {"serving", "samples", "timing", "run_folder", "evaluation", "comparison"},
    "cli": {
        "data",
        "onnx",
        "serving",
        "verbs",
        "report",
        "training",
        "runtime",
        "bundle",
        "config",
        "recipes",
        "benchmarks",
        "measure",
        "run_folder",
    },
}
OPEN = {"arrays", "errors", "files", "version"}
TORCH_FREE = (
    "errors",
    "files",
    "benchmarks",
    "config",
    "images",
    "probabilities",
    "measure",
    "run_folder",
    "graph",
    "bundle",
    "runtime",
    "serving",
    "report",
    "cli",
)


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module if node.module != "prunus" else f"prunus.{node.names[0].name}")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def _room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_every_room_imports_only_what_the_table_allows() -> None:
    wrong = []
    for path in ROOT.rglob("*.py"):
        room = _room(path)
        if room == "__init__":
            continue
        rooms = {name.split(".")[1] for name in _imports(path) if name.startswith("prunus.")}
        wrong += [f"{path.relative_to(ROOT)} imports {r}" for r in rooms - MAY_IMPORT[room] - OPEN - {room}]
    assert wrong == []


def test_what_runs_a_model_or_reads_a_file_does_not_import_torch() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if _room(path) in TORCH_FREE and any(name.split(".")[0] in {"torch", "timm"} for name in _imports(path))
    ]
    assert wrong == []


def test_without_torch_models_can_be_read_and_commands_say_what_to_install() -> None:
    blocked = "import sys; sys.modules['torch'] = None; "
    reading = "import prunus.bundle.file, prunus.runtime.predictor, prunus.images, prunus.measure.cost, prunus.cli.app"
    done = subprocess.run([sys.executable, "-c", blocked + reading], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    command = blocked + "sys.argv = ['prunus', 'zoo']; from prunus.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "pip install 'prunus[train]'" in done.stderr


def test_every_public_name_has_a_home() -> None:
    names = [name for name in dir(prunus) if not name.startswith("_")]
    assert "Predictor" in names
    assert all(getattr(prunus, name) is not None for name in names)
