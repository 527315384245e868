"""Names that hold markup, escape sequences, bidi marks or broken text: every command shows them and none obeys them."""

from __future__ import annotations

import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from prunus.bundle.bundle import Bundle
from prunus.bundle.file import write_bundle
from prunus.cli.app import main
from prunus.names import shown
from tests.conftest import write_domain
from tests.makers.graph_bundles import random_bundle, varied_graph
from tests.makers.hostile_files import HOSTILE_NAMES
from tests.makers.run_folders import results, write_run

NAMES = tuple(HOSTILE_NAMES)
ACCEPTED = ("[red]0", "[bold", "a\u202egnp.exe\u2066")  # as names of classes: they hold no control characters
FOLDER = "[/]\x1b[31m\u202e"  # of a run or of data, in a folder called "["
DOMAINS = {"[/]\x1b[31m": 0.9, "<b>\u202e": 0.7}  # of results from elsewhere
Prunus = Callable[..., tuple[int, str, str]]


@pytest.fixture
def prunus(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Prunus:
    """A function that runs a command and returns its exit code, output and errors, whose raw bytes it checks."""
    monkeypatch.setenv("COLUMNS", "400")

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["prunus", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capfdbinary.readouterr()
        for text in (captured.out.decode(), captured.err.decode()):
            assert_visible(text)
            assert "Traceback" not in text
        return int(stop.value.code or 0), captured.out.decode(), captured.err.decode()

    return call


def joined(text: str) -> str:
    """Join what a narrow table has put on several lines."""
    return "".join(text.split())


def assert_visible(text: str) -> None:
    unseen = {character for character in text if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert unseen <= {"\n"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model file of one domain whose classes, layers and backbone have hostile names."""
    made = random_bundle(varied_graph(0), 12, ("birds",))
    entry = made.manifest.domains["birds"].model_copy(update={"classes": NAMES})
    update = {"domains": {"birds": entry}, "backbone": NAMES[0] + NAMES[3], "provenance": {"prunus": NAMES[5]}}
    manifest = made.manifest.model_copy(update=update)
    rng = np.random.default_rng(0)
    heads = {
        "head/birds/weight": rng.standard_normal((len(NAMES), manifest.num_features)).astype(np.float32),
        "head/birds/bias": rng.standard_normal(len(NAMES)).astype(np.float32),
    }
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    write_bundle(folder / "model.prunus", Bundle(manifest, made.arrays | heads))
    return folder / "model.prunus"


def test_predict_shows_every_name(model: Path, prunus: Prunus) -> None:
    image = model.parent / "[bold]\x07x.png"
    Image.new("RGB", (16, 16)).save(image)
    code, out, _ = prunus("predict", model, image, "--domain", "birds", "--top", "99")
    assert code == 0
    assert joined(shown(f"{image} (birds)")) in joined(out)
    for visible in HOSTILE_NAMES.values():
        assert f"│ {visible} " in out


def test_the_json_of_predict_holds_the_exact_names(model: Path, prunus: Prunus) -> None:
    image = model.parent / "\u202ex.png"
    Image.new("RGB", (16, 16)).save(image)
    code, out, _ = prunus("predict", model, image, "--domain", "birds", "--top", "99", "--json")
    assert code == 0
    (row,) = json.loads(out)
    assert {guess["label"] for guess in row["predictions"]} == set(NAMES)
    assert row["image"] == str(image)


def test_predict_names_a_missing_image_and_an_unknown_domain_in_one_line(model: Path, prunus: Prunus) -> None:
    missing = model.parent / "\x1b]0;title\x07\n.png"
    image = model.parent / "x.png"
    Image.new("RGB", (16, 16)).save(image)
    for arguments, expected in (
        ((model, missing, "--domain", "birds"), f"there is no image {shown(str(missing))}"),
        ((model, image, "--domain", "[/]\x1b"), r"'[/]\x1b'"),
        ((missing, image, "--domain", "birds"), shown(str(missing))),
    ):
        code, _, errors = prunus("predict", *arguments)
        assert code == 1
        assert expected in errors
        assert errors.count("\n") == 1


def test_inspect_and_card_show_the_backbone(model: Path, prunus: Prunus) -> None:
    code, out, _ = prunus("inspect", model)
    assert code == 0
    assert r"[red]0[/red]\x1b[31mred\x1b[0m\x07" in out
    assert shown(str(model)) in out
    code, out, _ = prunus("card", model)
    assert code == 0
    assert r"\\x1b\[31mred\\x1b\[0m\\x07" in out  # as Markdown escapes backslashes


def test_evaluate_shows_the_backbone(model: Path, prunus: Prunus, tmp_path: Path) -> None:
    bundle = random_bundle(varied_graph(0), 12, ("birds",))
    entry = bundle.manifest.domains["birds"].model_copy(update={"classes": tuple(sorted(ACCEPTED))})
    recipe = {"backbone": "[/]\x1b\u202e", "budget": 0.5, "domains": [{"name": "birds", "path": "birds\x1b"}]}
    origin = {"recipe": recipe, "step": 1, "total_steps": 2}
    update = {"domains": {"birds": entry}, "backbone": "[/]\x1b\u202e", "provenance": origin}
    write_bundle(model, Bundle(bundle.manifest.model_copy(update=update), bundle.arrays))
    data = tmp_path / FOLDER / "data"
    write_domain(data / "birds", ACCEPTED)
    code, out, errors = prunus("evaluate", model, "--data", data)
    assert (code, errors) == (0, "")
    assert r"[/]\x1b\u202e: 1 domain" in out
    code, _, errors = prunus("evaluate", model, "--data", tmp_path / "\x1b")
    assert code == 1
    assert r"\x1b" in errors


def test_check_shows_what_it_found(prunus: Prunus, tmp_path: Path) -> None:
    data = write_domain(tmp_path / FOLDER, ("[red]", "b\u202e"))
    shutil.copy(data / "train" / "[red]" / "0.png", data / "train" / "[red]" / os.fsdecode(b"\xff.png"))
    (data / "train" / "[red]" / ":bug:\x1b[2J.png").write_bytes(b"no image")
    code, out, _ = prunus("check", data)
    assert code == 1
    assert joined(shown(f"domains in {data}")) in joined(out)
    assert rf"error {shown(data.name)}: train/[red]/\udcff.png: the name is not valid UTF-8; rename it" in out
    assert r"train/[red]/:bug:\x1b[2J.png: the name contains the control character \x1b" in out
    code, out, _ = prunus("check", data, "--json")
    assert {finding["file"] for finding in json.loads(out)["findings"]} == {
        "",
        "train/[red]/\udcff.png",
        "train/[red]/:bug:\x1b[2J.png",
    }


@pytest.mark.parametrize("command", ["plan", "train"])
def test_data_that_is_not_accepted_ends_a_command_in_one_line(prunus: Prunus, tmp_path: Path, command: str) -> None:
    data = write_domain(tmp_path / FOLDER)
    shutil.copy(data / "train" / "a" / "0.png", data / "train" / "a" / os.fsdecode(b"\xff\x1b.png"))
    recipe = tmp_path / "recipe.toml"
    domain = f"{{ name = 'd', path = {json.dumps(str(data))} }}"
    recipe.write_text(f'backbone = "wrn14_2"\nbudget = 0.5\ndomains = [{domain}]\n')
    code, _, errors = prunus(command, recipe, *(["--out", tmp_path / "run"] if command == "train" else []))
    assert code == 1
    assert rf"{shown(FOLDER)}): train/a/\udcff\x1b.png: the name is not valid UTF-8; rename it" in errors
    assert errors.count("\n") == 1


def test_plan_shows_a_recipe_with_hostile_paths_and_classes(prunus: Prunus, tmp_path: Path) -> None:
    data = write_domain(tmp_path / FOLDER, ACCEPTED)
    (tmp_path / "\x1b.toml").write_text(
        f'backbone = "wrn14_2"\nbudget = 0.5\ndomains = [{{ name = "d", path = {json.dumps(str(data))} }}]\n'
    )
    code, out, _ = prunus("plan", tmp_path / "\x1b.toml")
    assert code == 0
    assert "│ d " in out
    code, _, errors = prunus("plan", tmp_path / "\x1b.toml", "--set", "budget.\x1b=1")
    assert code == 1
    assert r"\x1b" in errors


def test_report_shows_runs_and_domains(prunus: Prunus, tmp_path: Path) -> None:
    runs, page = tmp_path / FOLDER, tmp_path / "\u202epage.html"
    write_run(runs / "a\x1b", results(accuracies=DOMAINS, backbone="net\x1b\u2066"))
    write_run(runs / "[red]\n", results("exact", 0.25, DOMAINS, backbone="net\x1b\u2066"))
    (runs / "none\x1b[0m").mkdir()
    (runs / "none\x1b[0m" / "recipe.json").write_text("{}")
    code, out, _ = prunus("report", runs, "--out", page)
    assert code == 0
    assert shown(f"left out: {runs}/none\x1b[0m") in out
    assert shown(f"{page}: 2 runs") in out
    text = page.read_text()
    assert not set(text) & set("\x1b\u202e\u2066\x07")
    for visible in (r"[/]\x1b[31m", r"&lt;b&gt;\u202e", r"net\x1b\u2066", r"a\x1b", r"[red]\n", r"none\x1b[0m"):
        assert visible in text


@pytest.mark.slow
def test_the_figures_of_a_report_show_every_name(prunus: Prunus, tmp_path: Path) -> None:
    write_run(tmp_path / "a\x1b", results(accuracies=DOMAINS))
    figures = tmp_path / "figures"
    code, _, _ = prunus("report", tmp_path / "a\x1b", "--out", tmp_path / "page.html", "--figures", figures)
    assert code == 0
    drawn = [ElementTree.parse(file).getroot() for file in figures.glob("*.svg")]
    words = " ".join(word for root in drawn for word in root.itertext())
    assert r"[/]\x1b[31m" in words
    assert r"<b>\u202e" in words
