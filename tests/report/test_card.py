"""Model cards: numbers of the file, and Markdown that shows names as they are."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from typer.testing import CliRunner

import prunus
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import write_bundle
from prunus.cli.app import app
from prunus.measure.bundle_cost import bundle_costs
from prunus.report.card import escape, fence
from tests.makers.graph_bundles import random_bundle, varied_graph
from tests.makers.run_folders import HOSTILE

NAMES = [
    HOSTILE,
    "a | b",
    "*bold* _thin_ `code`",
    "[x](https://example.org)",
    "# 1\n\n- 2",
    "www.example.org",
    "rosé 花",
]
MARKDOWN = MarkdownIt("commonmark").enable("table")


@pytest.fixture
def bundle() -> Bundle:
    """A model file of two domains; the second has hostile class names, and so has its recipe."""
    made = random_bundle(varied_graph(0), 12, ("birds", "flowers"))
    domains = dict(made.manifest.domains)
    domains["flowers"] = domains["flowers"].model_copy(update={"classes": (*NAMES[:2], "z")})
    recipe = {"domains": [{"name": "birds", "path": "```\n<script>"}], "budget": 0.5}
    origin = {"prunus": "9.9", "torch": "2.0", "step": 7, "total_steps": 8, "recipe": recipe}
    return Bundle(made.manifest.model_copy(update={"domains": domains, "provenance": origin}), made.arrays)


@pytest.fixture
def model(bundle: Bundle, tmp_path: Path) -> Path:
    write_bundle(tmp_path / "m.prunus", bundle)
    return tmp_path / "m.prunus"


def test_the_card_says_what_the_file_costs(bundle: Bundle, model: Path) -> None:
    text, costs = prunus.card(model), bundle_costs(bundle, has_switches=True)
    assert f"| bytes on disk, float32 | {model.stat().st_size / 1e3:.1f} kB | 1.05 MB, no classifiers |" in text
    assert f"| kernels kept for all domains | {100 * costs.union():.1f} % |" in text
    macs = sum(costs.macs(name) for name in costs.domains) / 2
    assert (
        f"| {macs / 1e6:,.1f} M ({100 * costs.mean_macs_ratio():.1f} %) | {costs.dense_macs() / 1e6:,.1f} M |" in text
    )
    for name in costs.domains:
        row = f"| {name} | 3 | {100 * costs.usage(name):.1f} % | {100 * costs.macs_ratio(name):.1f} % |"
        assert row in text
    assert "prunus 9.9, torch 2.0" in text
    assert "was not finished" in text
    assert "budget = 0.5" in text


def test_the_card_renders_with_its_tables_and_without_foreign_html(model: Path) -> None:
    page = MARKDOWN.render(prunus.card(model))
    assert page.count("<table>") == 2
    assert page.count("<h2>") == 5
    assert page.count("<pre>") == 3
    assert not re.search(r"<(script|img|a)\b", page)
    cells = re.findall(r"<tr>\n(.*?)</tr>", page, re.DOTALL)
    assert {cell.count("<td") for cell in cells} <= {0, 3, 5}


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_as_they_are(name: str) -> None:
    shown = MarkdownIt("commonmark").enable("table").parse(f"| a | {escape(name)} |\n|---|---|\n| b | {escape(name)} |")
    texts = [child for token in shown if token.type == "inline" for child in token.children or []]
    assert {child.type for child in texts} <= {"text", "text_special"}
    joined = "".join(child.content for child in texts)
    assert joined == "".join(f"{cell}{' '.join(name.split())}" for cell in "ab")


def test_nothing_ends_a_code_block_but_its_own_end() -> None:
    tokens = MARKDOWN.parse(fence("text", "```\n````\n<script>"))
    assert [(token.type, token.content) for token in tokens] == [("fence", "```\n````\n<script>\n")]


def test_the_command_prints_the_card_or_writes_it(model: Path, tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["card", str(model)])
    assert printed.exit_code == 0
    assert printed.output == prunus.card(model)
    written = CliRunner().invoke(app, ["card", str(model), "--out", str(tmp_path / "CARD.md")])
    assert written.exit_code == 0
    assert (tmp_path / "CARD.md").read_text() == printed.output


def test_no_torch_is_needed_for_a_card(model: Path) -> None:
    code = f"import sys; sys.modules['torch'] = None; import prunus; print(prunus.card({str(model)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "## Limits" in done.stdout


def test_the_card_names_the_source(bundle: Bundle, tmp_path: Path) -> None:
    origin = bundle.manifest.provenance
    recipe = origin["recipe"] | {"domains": [{"name": "birds", "path": "birds", "source": True}]}
    manifest = bundle.manifest.model_copy(update={"provenance": origin | {"recipe": recipe}})
    write_bundle(tmp_path / "s.prunus", Bundle(manifest, bundle.arrays))
    text = prunus.card(tmp_path / "s.prunus")
    assert "| birds (source) | 3 |" in text
    assert "pretrained on birds, the source" in text
    write_bundle(tmp_path / "m.prunus", bundle)
    assert "source" not in prunus.card(tmp_path / "m.prunus")


@pytest.mark.parametrize("added", [None, [], {"cars": None}, {"[b]": {"total_steps": "<i>", "grown": "x"}}])
def test_a_card_lists_added_domains_whatever_the_file_records_of_them(
    bundle: Bundle, tmp_path: Path, added: object
) -> None:
    origin = bundle.manifest.provenance | {"added": added}
    changed = Bundle(bundle.manifest.model_copy(update={"provenance": origin}), bundle.arrays)
    write_bundle(tmp_path / "m.prunus", changed)
    text = prunus.card(tmp_path / "m.prunus")
    assert text.count("- added later: ") == (len(added) if isinstance(added, dict) else 0)
    assert "<i>" not in text
