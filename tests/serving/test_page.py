"""The page in a real browser: a person chooses a domain, clicks an example, drops a file and reads the answer."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FilePayload, Page, Route, expect, sync_playwright

from prunus import names
from prunus.serving.routes.examples import Example
from tests.makers.graph_bundles import CLASSES
from tests.makers.hostile_files import HOSTILE_NAMES
from tests.makers.live_service import Live, live_service, picture

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; apt-get install chromium"),
]

KNOWN = CLASSES[0]  # an example that is named after a class
EXAMPLES = {
    "birds": [Example("an owl", picture(1), "image/png"), Example("a wren", picture(2), "image/png")],
    "flowers": [Example("a rose", picture(5), "image/png"), Example(KNOWN, picture(6), "image/png")],
}
NAMES = [*HOSTILE_NAMES, "\x00\x7f\x85\u2028\ufeff", "می\u200cخواهم", "👩\u200d🌾", "rösli"]
PHONE = {"width": 360, "height": 640}
DROP = """([name, content]) => {
  const data = new DataTransfer();
  const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
  data.items.add(new File([bytes], name, { type: "image/png" }));
  const event = KIND === "drop" ? new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: data })
                                : new ClipboardEvent("paste", { bubbles: true, clipboardData: data });
  document.getElementById("drop").dispatchEvent(event);
}"""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_service(tmp_path_factory.mktemp("live"), EXAMPLES, max_upload_mb=1) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(live: Live, browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    found = context.new_page()
    problems: list[str] = []
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on("console", lambda message: problems.append(message.text) if "Content Security" in message.text else None)
    found.goto(str(live.client.base_url))
    expect(found.get_by_label("birds")).to_be_checked()
    yield found
    context.close()
    assert problems == []


def _best(live: Live, content: bytes, domain: str) -> tuple[str, str]:
    best = live.predictor.predict(content, domain)[0]
    return best.label, f"{100 * best.probability:.1f}\u00a0%"


def _expect_answer(page: Page, live: Live, content: bytes, domain: str) -> None:
    label, share = _best(live, content, domain)
    expect(page.locator("#time")).to_contain_text(f"{domain}: ")
    first = page.locator("#results li").first
    expect(first.locator(".label")).to_have_text(label)
    expect(first.locator(".share")).to_have_text(share)


def _give(page: Page, kind: str, name: str, content: bytes) -> None:
    page.evaluate(DROP.replace("KIND", repr(kind)), [name, base64.b64encode(content).decode()])


def test_an_example_of_a_chosen_domain_is_classified_with_one_click(page: Page, live: Live) -> None:
    expect(page.get_by_role("button", name="Example")).to_have_count(2)
    page.get_by_text("flowers", exact=True).click()
    usage = live.service.domains.domains[1].usage
    expect(page.locator("#usage-text")).to_contain_text(
        f"flowers has 3 classes and uses {100 * usage:.1f}\u00a0% of the network"
    )
    page.get_by_role("button", name="Example: a rose").click()
    _expect_answer(page, live, picture(5), "flowers")
    expect(page.locator("#time")).to_contain_text("ms in the service")
    width = page.locator("#results li .fill").first.evaluate("bar => bar.style.width")
    assert float(width.removesuffix("%")) == pytest.approx(
        100 * live.predictor.predict(picture(5), "flowers")[0].probability
    )


@pytest.mark.parametrize("kind", ["drop", "paste"])
def test_a_file_that_is_dropped_or_pasted_is_classified_and_again_in_another_domain(
    page: Page, live: Live, kind: str
) -> None:
    _give(page, kind, "mine.png", picture(7))
    _expect_answer(page, live, picture(7), "birds")
    expect(page.get_by_role("img", name="Your image mine.png")).to_be_visible()
    page.get_by_text("flowers", exact=True).click()
    _expect_answer(page, live, picture(7), "flowers")


def test_before_a_result_the_page_lists_the_classes_of_the_domain(page: Page, live: Live) -> None:
    classes = live.service.domains.domains[0].classes
    expect(page.locator("#classes li")).to_have_text(list(classes))
    expect(page.locator("#empty-title")).to_have_text(f"The {len(classes)} classes of birds")
    expect(page.locator("#usage-name")).to_have_text("birds")
    expect(page.locator("#all-classes")).to_be_hidden()
    page.get_by_role("button", name="Example: an owl").click()
    _expect_answer(page, live, picture(1), "birds")
    expect(page.locator("#empty")).to_be_hidden()
    expect(page.locator("#scope")).to_have_text(
        f"The answer is always one of the {len(classes)} classes of birds, whatever the image shows."
    )


def test_many_classes_are_listed_on_demand(live: Live, browser: Browser) -> None:
    known = live.client.get("/domains").json()
    known["domains"][0]["classes"] = [f"kind {number}" for number in range(90)]
    context = browser.new_context()
    page = context.new_page()
    page.route("**/domains", lambda route: route.fulfill(json=known))
    page.goto(str(live.client.base_url))
    expect(page.locator("#classes li")).to_have_count(24)
    page.get_by_role("button", name="Show all 90 classes").click()
    expect(page.locator("#classes li")).to_have_text(known["domains"][0]["classes"])
    expect(page.locator("#all-classes")).to_be_hidden()
    context.close()


def test_the_chosen_example_is_marked_until_another_image_is_chosen(page: Page) -> None:
    pressed = page.locator("#example-list [aria-pressed=true]")
    for name in ("an owl", "a wren"):
        page.get_by_role("button", name=f"Example: {name}").click()
        expect(pressed).to_have_count(1)
        expect(pressed.locator("img")).to_have_attribute("title", name)
    _give(page, "drop", "mine.png", picture(7))
    expect(pressed).to_have_count(0)


def test_while_an_answer_is_computed_the_page_shows_the_image_and_says_so(page: Page, live: Live) -> None:
    page.get_by_role("button", name="Example: an owl").click()
    _expect_answer(page, live, picture(1), "birds")
    live.predictor.gate.clear()
    try:
        _give(page, "drop", "mine.png", picture(7))
        expect(page.locator("#progress")).to_have_text("Classifying…")
        expect(page.get_by_role("img", name="Your image mine.png")).to_be_visible()
        expect(page.locator("#results li")).to_have_count(0)  # nothing of the earlier answer
        expect(page.locator("#time")).to_be_empty()
        expect(page.locator("#progress")).to_have_text("Still waiting. The service may be busy.", timeout=10_000)
    finally:
        live.predictor.gate.set()
    _expect_answer(page, live, picture(7), "birds")
    expect(page.locator("#progress")).to_be_hidden()


@pytest.mark.parametrize("status", [503, 429, None])
def test_what_may_succeed_later_can_be_tried_again(page: Page, live: Live, status: int | None) -> None:
    def refuse(route: Route) -> None:
        if status is None:
            route.abort()
        else:
            route.fulfill(status=status, json={"error": "the service is overloaded"})

    page.route("**/predict/**", refuse)
    _give(page, "drop", "mine.png", picture(7))
    reason = "The service is overloaded" if status else "The service does not respond. Is it still running?"
    expect(page.get_by_role("alert")).to_have_text(reason)
    page.unroute("**/predict/**")
    page.get_by_role("button", name="Try again").click()
    _expect_answer(page, live, picture(7), "birds")
    expect(page.get_by_role("button", name="Try again")).to_be_hidden()


def test_many_domains_leave_room_for_the_image_on_the_first_screen(live: Live, browser: Browser) -> None:
    known = live.client.get("/domains").json()
    template = known["domains"][0]
    names = [f"the collection number {number} of a museum with a long name" for number in range(12)]
    known["domains"] = [template | {"name": name} for name in names]
    context = browser.new_context(viewport=PHONE)  # type: ignore[arg-type]
    page = context.new_page()
    page.route("**/domains", lambda route: route.fulfill(json=known))
    page.goto(str(live.client.base_url))
    expect(page.get_by_text("Choose, drop or paste an image")).to_be_in_viewport(ratio=1)
    page.get_by_label(names[-1]).check(force=True)
    expect(page.locator("#empty-title")).to_contain_text(names[-1])
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    context.close()


def test_the_true_class_of_an_example_is_labelled_as_such_and_only_in_its_domain(page: Page, live: Live) -> None:
    page.get_by_role("button", name="Example: an owl").click()
    expect(page.locator(".result .name")).to_have_text("an owl")  # the name of no class
    expect(page.locator(".truth")).to_have_count(0)
    page.get_by_text("flowers", exact=True).click()
    page.get_by_role("button", name=f"Example: {KNOWN}").click()
    is_right = _best(live, picture(6), "flowers")[0] == KNOWN
    verdict = "predicted correctly" if is_right else "not predicted"
    expect(page.locator(".truth")).to_have_text(f"True class: {KNOWN}{verdict}")
    expect(page.locator(".result .name")).to_have_count(0)
    page.get_by_text("birds", exact=True).click()
    _expect_answer(page, live, picture(6), "birds")
    expect(page.locator(".truth")).to_have_count(0)  # the class of another domain


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([0.6, 0.3, 0.1], ""),
        ([0.49, 0.2, 0.2], "Unsure: the most probable class has less than 50 %."),
        ([0.52, 0.45, 0.03], "Unsure: the two most probable classes are less than 10 points apart."),
        ([0.5, 0.375, 0.125], ""),
        ([1.0], ""),
    ],
)
def test_an_unsure_answer_is_marked_with_the_reason(page: Page, shares: list[float], expected: str) -> None:
    predictions = [{"label": str(place), "probability": share} for place, share in enumerate(shares)]
    content = {"domain": "birds", "milliseconds": 1.0, "results": [{"name": "a.png", "predictions": predictions}]}
    page.route("**/predict/**", lambda route: route.fulfill(json=content))
    _give(page, "drop", "a.png", picture(1))
    expect(page.locator("#results li")).to_have_count(len(shares))
    expect(page.locator(".unsure")).to_have_text([expected] if expected else [])


@pytest.mark.parametrize(("width", "least"), [(1280, 300), (360, 250)])
def test_the_picture_is_large_and_whole(page: Page, width: int, least: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.get_by_role("button", name="Example: an owl").click()
    image = page.locator(".result img")
    expect(image).to_be_visible()
    box = image.bounding_box()
    assert box
    assert least <= min(box["width"], box["height"])
    assert box["x"] + box["width"] <= width


def test_several_chosen_files_are_all_answered(page: Page, live: Live) -> None:
    names = [f"{seed}.png" for seed in range(3)]
    page.get_by_label("Choose, drop or paste an image").set_input_files(
        [FilePayload(name=name, mimeType="image/png", buffer=picture(seed)) for seed, name in enumerate(names)]
    )
    expect(page.locator(".result .name")).to_have_text(names)
    labels = page.locator(".result").evaluate_all("all => all.map((one) => one.querySelector('.label').textContent)")
    assert labels == [_best(live, picture(seed), "birds")[0] for seed in range(3)]


def test_a_broken_file_shows_the_reason_and_the_next_good_one_the_answer(page: Page, live: Live) -> None:
    _give(page, "drop", "<b>broken</b>.png", picture(1)[:60])
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Cannot read the image ('<b>broken</b>.png')")  # as text, not as markup
    expect(page.locator("#results li")).to_have_count(0)
    expect(page.get_by_role("button", name="Try again")).to_be_hidden()  # it would fail again
    _give(page, "drop", "good.png", picture(2))
    _expect_answer(page, live, picture(2), "birds")
    expect(alert).to_be_hidden()


def test_names_show_what_they_hide(page: Page) -> None:
    _give(page, "drop", "a\u202egnp.\u200b\U000e0041\u061cexe", picture(1))
    visible = r"a\u202egnp.\u200b\U000e0041\u061cexe"
    expect(page.locator(".result .name")).to_have_text(visible)
    expect(page.get_by_role("img", name=f"Your image {visible}")).to_be_visible()
    script = "names => names.map(shown)"
    assert page.evaluate(script, NAMES) == [names.shown(name) for name in NAMES]


def test_a_file_that_is_too_large_is_not_even_sent(page: Page) -> None:
    _give(page, "drop", "large.png", bytes(1_100_000))
    expect(page.get_by_role("alert")).to_contain_text("Choose at most 1.0 MB at once. This is 1.1 MB.")


def test_everything_is_reached_with_the_keyboard(page: Page, live: Live) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_label("birds")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_label("flowers")).to_be_checked()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Choose, drop or paste an image")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Example: a rose")).to_be_focused()
    page.keyboard.press("Enter")
    _expect_answer(page, live, picture(5), "flowers")


def test_a_phone_in_the_dark_shows_everything_without_scrolling_sideways(
    live: Live, browser: Browser, tmp_path: Path
) -> None:
    context = browser.new_context(viewport=PHONE, color_scheme="dark", has_touch=True, is_mobile=True)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(str(live.client.base_url))
    expect(page.get_by_text("Take a photo")).to_be_visible()
    assert page.locator("#camera").get_attribute("capture") == "environment"
    page.get_by_role("button", name="Example: an owl").click()
    _expect_answer(page, live, picture(1), "birds")
    expect(page.locator("#results li").first).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, dark.removeprefix("rgb(").removesuffix(")").split(","))) < 150
    page.goto(f"{live.client.base_url}/docs")
    expect(page.get_by_text("POST /predict/{domain}")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    context.close()
