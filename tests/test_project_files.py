"""The files around the code: workflows, templates, container, versions, and the pages for contributors."""

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import prunus

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
PAGES = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md", "README.md")]
NATIVE = "prunus/runtime/_native.abi3.so"


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)


def _write_wheel(folder: Path, tags: str, *names: str, version: str = "1.2.3") -> None:
    with zipfile.ZipFile(folder / f"prunus-{version}-{tags}.whl", "w") as file:
        for name in names:
            file.writestr(name, "")


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", page.read_text())
    targets = [(page.parent / path if path else page, anchor) for path, anchor in links]
    assert [str(path) for path, _ in targets if not path.exists()] == []
    assert [(path.name, anchor) for path, anchor in targets if anchor and anchor not in _anchors(path)] == []


def test_every_command_of_the_contributors_page_is_a_target_of_the_makefile() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make (\w+)", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    assert {"setup", "lint", "test"} <= named <= targets


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_pins_its_actions_limits_its_rights_and_its_time(workflow: Path) -> None:
    text = workflow.read_text()
    actions = re.findall(r"uses: (\S+)(.*)", text)
    pinned = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40}|\./\.github/workflows/\w+\.yml")
    assert [action for action, _ in actions if not pinned.fullmatch(action)] == []
    assert [action for action, version in actions if "@" in action and not re.fullmatch(r" # v[\d.]+", version)] == []
    assert "\npermissions:\n  contents: read\n" in text
    assert text.count("runs-on: ") == text.count("timeout-minutes: ")
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")
    assert "secrets." not in text


def test_only_the_release_may_write_or_publish() -> None:
    writing = {path.name for path in WORKFLOWS if re.search(r": write\b|uv publish", path.read_text())}
    assert writing == {"release.yml"}


def test_the_workflows_pass_actionlint() -> None:
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        pytest.skip("actionlint is not installed; .github/workflows/lint.yml runs it")
    done = subprocess.run([actionlint, *WORKFLOWS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_file_names_the_same_version() -> None:
    versions = {
        "CITATION.cff": re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE),
        "samples": re.findall(r'^version = "(.*?)"', (ROOT / "samples/pyproject.toml").read_text(), re.MULTILINE),
        "changelog": re.findall(r"^## (\S+) - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[:1],
    }
    assert versions == {name: [prunus.__version__] for name in versions}


def test_an_install_answers_the_stored_questions() -> None:
    done = _run("tests/golden/check_install.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("2 domains") == len(list((ROOT / "tests/golden/model_format_3").glob("*.prunus")))


def test_an_install_with_another_engine_than_expected_is_refused() -> None:
    done = _run("tests/golden/check_install.py", "--engine", "numpy")
    assert done.returncode == 1
    assert "expected numpy" in done.stderr


def test_a_wheel_without_the_native_module_stops_a_release(tmp_path: Path) -> None:
    _write_wheel(tmp_path, "cp312-abi3-manylinux_2_28_x86_64", NATIVE)
    assert _run(GITHUB / "check_wheels.py", tmp_path).returncode == 0
    _write_wheel(tmp_path, "cp311-cp311-manylinux_2_28_x86_64", "prunus/runtime/engine.py")
    done = _run(GITHUB / "check_wheels.py", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "prunus-1.2.3-cp311-cp311-manylinux_2_28_x86_64.whl has no native module\n"


def test_a_release_without_a_wheel_for_later_versions_is_refused(tmp_path: Path) -> None:
    _write_wheel(tmp_path, "cp311-cp311-win_amd64", NATIVE)
    done = _run(GITHUB / "check_wheels.py", tmp_path)
    assert done.returncode == 1
    assert "no wheel with -cp312-abi3-" in done.stderr


def _release(folder: Path, heading: str, leave_out: str = "") -> subprocess.CompletedProcess[str]:
    """Check a release of version 1.2.3 in a copy of the project with this changelog."""
    shutil.copytree(GITHUB, folder / ".github")
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n\n- New.\n\n## 1.2.2 - 2026-01-01\n\n- Old.\n")
    files = folder / "dist"
    files.mkdir()
    for version in ("cp310-cp310", "cp311-cp311", "cp312-abi3"):
        for system in ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "macosx_11_0_arm64", "macosx_11_0_x86_64"):
            _write_wheel(files, f"{version}-{system}", NATIVE)
        _write_wheel(files, f"{version}-win_amd64", "prunus/runtime/_native.pyd")
    for name in ("prunus-1.2.3.tar.gz", "prunus_samples-1.2.3.tar.gz"):
        (files / name).touch()
    for path in files.glob(leave_out) if leave_out else ():
        path.unlink()
    return _run(folder / ".github/check_release.py", files, "v1.2.3")


def test_a_complete_release_is_accepted_and_its_notes_are_those_of_its_version(tmp_path: Path) -> None:
    done = _release(tmp_path, "## 1.2.3 - 2026-02-01")
    assert (done.returncode, done.stdout, done.stderr) == (0, "- New.\n", "")


@pytest.mark.parametrize(
    ("heading", "leave_out", "message"),
    [
        ("## 1.2.3 - Unreleased", "", "CHANGELOG.md has no heading '## 1.2.3 - YEAR-MONTH-DAY'"),
        ("## 1.2.3 - 2026-02-01", "*abi3*aarch64*", "the wheel cp312-abi3 for Linux aarch64 is missing"),
        ("## 1.2.3 - 2026-02-01", "prunus-*.tar.gz", "prunus-1.2.3.tar.gz is missing"),
    ],
)
def test_an_incomplete_release_is_refused(tmp_path: Path, heading: str, leave_out: str, message: str) -> None:
    done = _release(tmp_path, heading, leave_out)
    assert done.returncode == 1
    assert message in done.stderr


def test_the_container_copies_files_that_exist_and_that_are_not_ignored() -> None:
    text = (ROOT / "Dockerfile").read_text()
    copied = {name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for name in line.split()}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == allowed
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_the_container_serves_without_root_and_asks_for_its_health() -> None:
    _, last = (ROOT / "Dockerfile").read_text().rsplit("\nFROM ", 1)
    instructions = re.findall(r"^([A-Z]+) ", last, re.MULTILINE)
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", last, re.MULTILINE)
    assert instructions.index("USER") < instructions.index("ENTRYPOINT")
    (command,) = re.findall(r"^  CMD (\[.*\])$", last, re.MULTILINE)
    assert "/health" in ast.literal_eval(command)[-1]
    compile(ast.literal_eval(command)[-1], "health check", "exec")


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    named = re.findall(r"^ +- [^:]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_one_placeholder_stands_for_the_address_of_the_repository() -> None:
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*.toml"), ROOT / "samples/pyproject.toml"]
    found = {name for path in files for name in re.findall(r"URL-OF-[A-Z-]+[A-Z]", path.read_text())}
    assert found == {"URL-OF-THIS-REPOSITORY"}


def _build_without_a_compiler(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build a wheel of a copy of the project where CMake finds no compiler."""
    source = folder / "source"
    for name in ("native", "src"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.pyd"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = "import scikit_build_core.build as backend, sys; backend.build_wheel(sys.argv[1])"
    return subprocess.run(
        [sys.executable, "-c", command, folder / "dist"],
        cwd=source,
        env={**os.environ, "PATH": path, "CXX": "/nonexistent/compiler", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_release_build_without_a_compiler_fails(tmp_path: Path) -> None:
    done = _build_without_a_compiler(tmp_path, PRUNUS_REQUIRE_NATIVE="1")
    assert done.returncode != 0
    assert "Prunus: the native engine could not be built" in done.stdout + done.stderr
    assert list(tmp_path.glob("dist/*.whl")) == []


@pytest.mark.slow
def test_any_other_build_without_a_compiler_makes_a_package_that_computes_with_numpy(tmp_path: Path) -> None:
    done = _build_without_a_compiler(tmp_path, PRUNUS_REQUIRE_NATIVE="")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.glob("dist/*.whl")] == [f"prunus-{prunus.__version__}-py3-none-any.whl"]
    assert "computes with numpy" in done.stdout + done.stderr
    assert _run(GITHUB / "check_wheels.py", tmp_path / "dist").returncode == 1
