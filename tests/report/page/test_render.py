"""The page in a browser: offline, on wide and narrow screens, in the light and the dark theme."""

import io
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pypdfium2 as pdfium
import pytest
from PIL import Image

import prunus
from prunus.measure.by_class.confusion import ByClass
from prunus.report.page import render
from prunus.report.plots import COLOURS
from tests.makers.run_folders import HOSTILE, by_class, results, write_measured_model, write_run

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium on this machine")]

from playwright.sync_api import Browser, Page, expect  # noqa: E402  # after the check that it is there

CSS = Path(prunus.__file__).parent / "report" / "page" / "templates" / "page.css"
SERVICE = Path(prunus.__file__).parent / "serving" / "page"
EDGES = """all => all.map((part) => {
  const { left, right } = part.getBoundingClientRect();
  return { left, right, needed: part.scrollWidth, given: part.clientWidth };
})"""
LIMITS = [{"name": "kernels", "domain": None, "used": 7, "limit": 8, "kept": True}]
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Open a file; script errors, and requests for anything but the file, fail the test."""
    wrong: list[str] = []
    contexts = []

    def open_file(path: Path, width: int = 1280, scheme: str = "light", touch: bool = False) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,  # type: ignore[arg-type]
            has_touch=touch,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: wrong.append(request.url) if request.url != path.as_uri() else None)
        page.goto(path.as_uri())
        page.wait_for_selector(".chart")
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about one run with its baseline, a model file and speeds."""
    folder = write_measured_model(tmp_path_factory.mktemp("one") / "first")
    return prunus.write_report(folder, folder / "report.html").page


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about five runs."""
    runs = tmp_path_factory.mktemp("many")
    write_run(runs / "feature", results("feature", None, {"birds": 0.6, "flowers": 0.5}, (1.0, 1.0)))
    write_run(runs / "finetune", results("finetune", None, {"birds": 0.9, "flowers": 0.8}, (2.0, 1.0)))
    for share in (0.25, 0.5, 0.75):
        accuracies = {"birds": 0.5 + 0.4 * share, "flowers": 0.5 + 0.2 * share}
        write_run(runs / f"bn-{share}", results("bn", share, accuracies, (share, share)))  # nothing to look into
        _use_every_kernel(runs / f"bn-{share}")
    return prunus.write_report(runs, runs / "report.html").page


def _use_every_kernel(folder: Path) -> None:
    file = folder / "results.json"
    file.write_text(re.sub(r'"usage": [\d.]+', '"usage": 1.0', file.read_text()))


def test_one_run_gives_a_page_with_every_figure_and_table(open_page: Open, one: Path) -> None:
    page = open_page(one)
    kinds = [
        re.sub(r"^(run|board)-\d+-", "", chart.get_attribute("id") or "") for chart in page.locator(".chart").all()
    ]
    classes = ["confusion-1", "classes-1", "confusion-2", "classes-2"]
    latency = ["latency-1", "latency-2"]
    assert kinds == ["summary", "domains", "learning", "pruning", *classes, "usage", "sharing", *latency]
    text = page.inner_text("body")
    for text_part in ("80.0 %", "0.90 MB", "0.3 ms", "weights of the kept kernels", "a small machine", "numpy 2.0"):
        assert text_part in text
    assert "PyTorch dense 2 ms" in page.inner_text("header")
    page.get_by_text("Recipe with all defaults").click()
    assert 'domains.0.path = "birds"' in page.inner_text("pre")


def test_the_mistakes_of_a_domain_are_shown_with_their_pictures_and_classes(open_page: Open, one: Path) -> None:
    results = json.loads((one.parent / "results.json").read_text())["domains"]["birds"]["by_class"]
    domain = open_page(one).locator(".domain").first
    loaded = domain.locator(".mistakes img").evaluate_all(
        "all => all.map(image => image.complete && image.naturalWidth)"
    )
    assert loaded == [32] * len(results["mistakes"])
    assert len(loaded) > 3
    texts = [" ".join(text.split()) for text in domain.locator(".mistakes figcaption").all_text_contents()]
    assert texts == [
        f"predicted, {100 * mistake['probability']:.1f} % {mistake['predicted']} true class {mistake['truth']}"
        for mistake in results["mistakes"]
    ]
    cells = domain.locator(".heat tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].slice(1).map(cell => Number(cell.textContent)))"
    )
    assert cells == ByClass.model_validate(results).matrix()
    assert domain.locator("td.wrong").count() == len(results["confusions"])


def test_pointing_at_a_run_shows_it_and_a_click_opens_its_section(open_page: Open, many: Path) -> None:
    page = open_page(many)
    point = page.locator("#board-1-macs .noted", has=page.locator("a[href='#run-1']"))
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    assert box
    assert page.locator("#tip").is_hidden()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#tip")).to_be_visible()
    shown = page.inner_text("#tip")
    assert "bn β=0.25" in shown
    assert "mean accuracy 57.5 %" in shown
    assert page.locator("details.run[open]").count() == 0
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("details.run[open]")
    assert "bn β=0.25" in page.inner_text("details.run[open] > summary")
    expect(page.locator("details.run[open] .chart svg").first).to_be_visible()


def _colourful(pixels: npt.NDArray[np.uint8]) -> int:
    """Count the pixels that are neither white nor grey nor black."""
    spread = pixels[..., :3].max(-1).astype(int) - pixels[..., :3].min(-1)
    return int((spread > 25).sum())


def _printed_figures(path: Path) -> Counter[str]:
    """Count the captions that have something colourful below them, by their first word."""
    found: Counter[str] = Counter()
    for page in pdfium.PdfDocument(path):
        pixels = page.render(scale=2).to_numpy()
        texts = page.get_textpage()
        for caption in CAPTIONS:
            search = texts.search(caption, match_case=True)
            while (match := search.get_next()) is not None:
                left, _, _, top = (round(2 * value) for value in texts.get_charbox(match[0]))
                above = len(pixels) - top
                found[caption] += _colourful(pixels[above : above + 350, left : left + 400]) > 200
    return found


CAPTIONS = (
    *("Accuracy and cost", "Accuracy against", "Accuracy by domain", "Learning", "Pruning", "Confusions"),
    *("Accuracy by class", "Kernels used in each layer", "Kernels shared by two", "Time for one image"),
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_figure_is_printed(open_page: Open, one: Path, many: Path, tmp_path: Path, scheme: str) -> None:
    printed = []
    for number, path in enumerate((one, many)):
        page = open_page(path, scheme=scheme)
        page.pdf(path=tmp_path / f"{number}.pdf", format="A4")
        captions = page.locator(".chart > figcaption").all_text_contents()
        found = _printed_figures(tmp_path / f"{number}.pdf")
        assert found == Counter(
            caption for full in captions for caption in CAPTIONS if full.strip().startswith(caption)
        )
        printed.append(found.total())
    assert printed == [12, 3 + 5 * 2]


def test_every_figure_is_in_a_full_page_screenshot(open_page: Open, one: Path, many: Path) -> None:
    for path in (one, many):
        page = open_page(path)
        page.evaluate("document.querySelectorAll('details.run').forEach(run => (run.open = true))")
        pixels = np.asarray(Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB"))
        for chart in page.locator(".chart").all():
            box = chart.bounding_box()
            assert box
            left, top, right, bottom = box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]
            assert _colourful(pixels[int(top) : int(bottom), int(left) : int(right)]) > 200


def test_the_table_holds_all_runs_and_sorts(open_page: Open, many: Path) -> None:
    page = open_page(many)
    rows = page.locator(".board tbody tr")
    assert rows.count() == 5
    assert page.locator(".board thead tr").last.inner_text().split() == [
        *("method", "mean", "MACs", "parameters", "birds", "flowers", "S", "S_O", "S_P", "S_E")
    ]
    cells = ["55.0", "100.0", "100.0", "60.0", "50.0"]
    assert rows.first.inner_text().split()[:8] == ["feature", "(frozen", "backbone)", *cells]
    page.get_by_role("button", name="mean", exact=True).click()
    assert rows.first.locator("th").inner_text().startswith("finetune")
    page.get_by_role("button", name="mean", exact=True).click()
    assert rows.first.locator("th").inner_text().startswith("feature")
    page.locator(".board a", has_text="bn β=0.5").click()
    page.wait_for_selector("details.run[open]")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_narrow_screen_nothing_sticks_out(open_page: Open, one: Path, many: Path, scheme: str) -> None:
    for path in (one, many):
        page = open_page(path, width=360, scheme=scheme, touch=True)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        widths = page.locator(".chart svg").evaluate_all("all => all.map(chart => chart.getBoundingClientRect().width)")
        assert 0 < max(widths) <= 360


@pytest.mark.slow
def test_a_shadow_marks_a_table_that_continues_until_its_end_is_reached(open_page: Open, many: Path) -> None:
    table = open_page(many, width=1280).locator(".board .wide")
    expect(table).to_have_class("wide", timeout=30_000)
    table = open_page(many, width=360).locator(".board .wide")
    expect(table).to_have_class("wide more", timeout=30_000)
    table.evaluate("table => table.scrollTo(table.scrollWidth, 0)")
    expect(table).to_have_class("wide", timeout=30_000)


def test_on_a_phone_legends_and_figures_are_whole(open_page: Open, many: Path) -> None:
    page = open_page(many, width=390)
    names = {"params": ["feature (frozen backbone)", "without a budget", "bn", "Pareto front", "dense backbone"]}
    names |= {"macs": names["params"], "domains": names["params"][:3]}
    for figure, expected in names.items():
        items = page.locator(f"#board-1-{figure} .legend li")
        assert items.all_text_contents() == expected
        for edges in items.evaluate_all(EDGES):
            assert edges["left"] >= 0
            assert edges["right"] <= 390
            assert edges["needed"] <= edges["given"]
        texts = page.locator(f"#board-1-{figure} svg text").evaluate_all(EDGES)
        assert len(texts) > 5
        assert all(text["left"] >= 0 and text["right"] <= 390 for text in texts)
        sizes = page.locator(f"#board-1-{figure} svg text").evaluate_all(
            "all => all.map((text) => [text.getScreenCTM(), parseFloat(getComputedStyle(text).fontSize)])"
            ".map(([matrix, size]) => size * Math.hypot(matrix.a, matrix.b))"
        )
        assert min(sizes) > 8.5


def test_figures_follow_the_theme_of_the_reader(open_page: Open, one: Path) -> None:
    page = open_page(one, scheme="light")
    tick = page.locator("#board-1-summary svg text").first
    expect(tick).to_have_css("fill", "rgb(34, 26, 31)")
    page.emulate_media(color_scheme="dark")
    expect(tick).to_have_css("fill", "rgb(242, 235, 240)")


def test_what_a_reader_needs_first_is_at_the_top_and_every_term_is_defined(open_page: Open, many: Path) -> None:
    folder = write_run(many.parent / "kept" / "a", results("exact", 0.25, budget_kept=True, limits=LIMITS))
    baseline = results("feature", None, {"birds": 0.5, "flowers": 0.6}, (1.0, 1.0))
    content = json.loads((folder / "results.json").read_text()) | {"baselines": {"feature": baseline}}
    (folder / "results.json").write_text(json.dumps(content))
    page = open_page(prunus.write_report(folder, folder / "report.html", measure=False).page)
    header = page.inner_text("header")
    assert "Budget (β): 25 % of the kernels. It was kept: 7 of 8 kernels." in header
    assert "55.0 % with the frozen backbone" in header
    assert "2 runs" not in page.inner_text("body")  # one, and what was measured with it
    links = page.locator("nav a").evaluate_all("all => all.map((link) => link.getAttribute('href'))")
    assert len(links) > 3
    assert [link for link in links if page.locator(link).count() != 1] == []
    definitions = open_page(many).inner_text("#definitions")
    for term in ("bn:", "feature:", "finetune:", "Budget β:", "Dense backbone:", "MACs", "S_O", "S_P", "S_E"):
        assert term in definitions


def test_long_names_of_domains_fit_on_paper_and_can_be_told_apart(open_page: Open, tmp_path: Path) -> None:
    names = [
        f"{kind} of the collection of a museum" for kind in ("coins", "ferns", "moths", "shells", "stones", "owls")
    ]
    names += [f"{name}, second part" for name in names]
    folder = write_run(tmp_path / "a", results("bn", None, dict.fromkeys(names, 0.5)))
    page = open_page(prunus.write_report(folder, tmp_path / "r.html").page)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 703, "height": 900})  # A4 without its margins
    table = page.locator(".board table").bounding_box()
    assert table
    assert table["x"] + table["width"] <= 703
    titles = page.locator(".board thead tr").last.locator("th").evaluate_all("all => all.map((head) => head.title)")
    assert titles[4:] == names
    ticks = page.locator("#board-1-domains svg text").all_text_contents()
    assert len({tick for tick in ticks if "…" in tick}) == 12


def test_a_page_about_many_runs_shows_less_of_each_and_says_so(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        content = results("bn", None, {"birds": 0.5 + 0.1 * number}, (1 + number, 1.0))
        content["domains"]["birds"]["by_class"] = by_class(("owl", "wren", "kite"))
        write_run(tmp_path / "runs" / str(number), content)
    size = 10_000_000
    for note, pictures, figures, curves in (
        ("", 16, 4, 2),
        ("Only three mistakes of each domain are shown", 6, 4, 2),
        ("Classes, mistakes and training curves are left out", 0, 0, 0),
    ):
        monkeypatch.setattr(render, "MOST_BYTES", size)
        file = prunus.write_report(tmp_path / "runs", tmp_path / "r.html", measure=False).page
        page = open_page(file)
        assert page.locator(".mistakes img").count() == pictures
        assert page.locator(".domain .chart").count() == figures
        assert page.locator("[id$=-learning]").count() == curves
        said = page.locator(".note", has_text="to keep this page small").all_text_contents()
        assert [text.partition(", to keep")[0] for text in said] == [note for _ in range(bool(note))]
        size = len(file.read_bytes()) - 1 if not note else 1  # less than the page takes, and less than any page


def test_hostile_names_are_text(open_page: Open, tmp_path: Path) -> None:
    link = "<a href='https://example.org'>x</a>"
    example = {"domain": HOSTILE, "file": HOSTILE, "truth": HOSTILE}
    example |= {"predictions": [{"label": HOSTILE, "probability": 1.0}]}  # type: ignore[dict-item]
    content = results(accuracies={HOSTILE: 0.5, link: 0.6, "2024-01-01": 0.7}, example=example, backbone=HOSTILE)
    for domain in content["domains"].values():
        domain["usage"] = 1.0
    folder = write_run(tmp_path / "r", content)
    page = open_page(prunus.write_report(folder, tmp_path / "r.html").page)
    assert page.title() == "r · Prunus report"
    assert page.locator("img, a[href^=http]").count() == 0
    assert page.locator("script").count() == 1
    assert f"the model predicts “{HOSTILE}”" in page.inner_text("body")
    ticks = page.locator("#board-1-domains svg text").all_text_contents()
    assert {f"{HOSTILE[:11]}…{HOSTILE[-12:]}", f"{link[:11]}…{link[-12:]}", "2024-01-01"} <= set(ticks)


def _luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_texts_and_series_stand_out_from_what_they_lie_on(theme: int) -> None:
    block = re.findall(r":root \{(.*?)\}", CSS.read_text(), re.DOTALL)[theme]
    colours = dict(re.findall(r"--(\w+): (#\w{6})", block))
    grounds = [colours[name] for name in ("ground", "card", "warn")]
    texts = [("ink", ground) for ground in [*grounds, colours["low"], colours["high"], colours["wrong"]]]
    texts += [(name, ground) for name in ("quiet", "plum") for ground in grounds[:2]]
    assert [(name, ground) for name, ground in texts if _contrast(colours[name], ground) < 4.5] == []
    series = [f"c{number}" for number in range(10)]
    assert [name for name in series if _contrast(colours[name], colours["card"]) < 3] == []


def test_the_report_has_the_colours_the_font_and_the_logo_of_the_services_page() -> None:
    def themes(file: Path) -> list[dict[str, str]]:
        blocks = re.findall(r":root \{(.*?)\}", file.read_text(), re.DOTALL)
        return [dict(re.findall(r"--([\w-]+): (#\w+)", block)) for block in blocks]

    for ours, services in zip(themes(CSS), themes(SERVICE / "page.css"), strict=True):
        assert len(services) == 11
        assert services == {name: ours[name] for name in services}
    assert tuple(themes(CSS)[0][f"c{number}"] for number in range(10)) == COLOURS  # of plots, and of figures as files
    font = re.compile(r"font: 1rem/1.5 .*;")
    assert font.findall(CSS.read_text()) == font.findall((SERVICE / "page.css").read_text()) != []
    assert (CSS.parent / "icon.svg").read_bytes() == (SERVICE / "icon.svg").read_bytes()
