"""The page in Chromium: every switch, every slider, both themes, two models, links, keys, accessibility."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import pytest

from gptcalc.analysis.params import params
from gptcalc.report.page import document
from gptcalc.report.page.data import Shown
from gptcalc.sources import load
from tests.conftest import Command

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MODELS = ("gpt2", "deepseek-v3")
WIDTHS = {"desktop": 1400, "tablet": 900, "phone": 390}

Open = Callable[..., Any]

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install '.[browser]')")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with api.sync_playwright() as playwright:
        # where everything runs as root, Chromium has no sandbox
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two models."""
    models = [load(name) for name in MODELS]
    made = tmp_path_factory.mktemp("page") / "page.html"
    made.write_text(document([Shown(model.architecture, model.document) for model in models]), encoding="utf-8")
    return made


@pytest.fixture
def opened(browser: Any, file: Path) -> Iterator[Open]:
    """Opens the page at an address; no script may fail, and nothing may be fetched."""
    problems: list[str] = []
    contexts = []

    def open(address: str = "", width: int = WIDTHS["desktop"], scheme: str = "light") -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith("file:") else problems.append(request.url))
        page.goto(f"{file.as_uri()}{address}")
        page.wait_for_selector(".picture")
        return page

    yield open
    for context in contexts:
        context.close()
    assert problems == []


def totals(page: Any, pane: int = 0) -> dict[str, int]:
    """The four figures of a pane."""
    cards = page.locator(".pane").nth(pane).locator("[data-total]")
    return {card.get_attribute("data-total"): int(card.get_attribute("data-value")) for card in cards.all()}


def said(page: Any, gptcalc: Command, pane: int = 0) -> dict[str, int]:
    """The same of the command that the pane shows."""
    words = page.locator(".pane").nth(pane).locator("code").inner_text().split()[2:]
    memory = gptcalc("memory", *words, "--json").json

    def of(*names: str) -> list[str]:
        """The options with these names, and MODEL, --with and --set."""
        found, at = [words[0]], 1
        while at < len(words):
            size = 1 if words[at] == "--mtp" else 2
            if words[at] in ("--with", "--set", *names):
                found += words[at : at + size]
            at += size
        return found

    flops = gptcalc("flops", *of("--context", "--batch", "--phase", "--mtp"), "--json").json
    cache = gptcalc("kv", *of("--context", "--batch", "--kv-dtype", "--mtp"), "--json").json
    return {
        "parameters": gptcalc("params", *of(), "--json").json["total"],
        "cache": cache["bytes"],
        "flops": flops["total"],
        "memory": memory["per_device"]["total"],
    }


@pytest.mark.parametrize("model", MODELS)
def test_every_switch(model: str, opened: Open, gptcalc: Command) -> None:
    """Each option alone, and what the program says of it."""
    page = opened(f"#m={model}")
    seen = [totals(page)]
    assert seen[0] == said(page, gptcalc)
    ids = [choice.get_attribute("id") for choice in page.locator(".controls input[type=radio]:enabled").all()]
    assert len(ids) >= 12
    for name in ids:
        page.locator("#A-reset").click()
        page.locator(f"label[for='{name}']").click()
        assert page.locator(f"#{name}").is_checked()
        assert totals(page) == said(page, gptcalc), name
        seen.append(totals(page))
    assert len({json.dumps(own) for own in seen}) >= 8


def test_switches_together(opened: Open, gptcalc: Command) -> None:
    page = opened("#m=gpt2")
    for name in ("heads-mla", "past-recurrent", "mlp-experts", "position-rope", "mtp-on", "phase-decode"):
        page.locator(f"label[for='A-{name}']").click()
        assert totals(page) == said(page, gptcalc), name
    assert "heads=mla" in page.evaluate("location.hash")
    assert page.locator("#A-position-alibi").is_disabled()
    assert "latent attention has no biases" in page.locator(".choice:has(#A-position-alibi)").get_attribute("title")


@pytest.mark.parametrize("address", ["#m=gpt2", "#m=deepseek-v3", "#m=gpt2&heads=gqa&mlp=experts"])
def test_every_slider(address: str, opened: Open, gptcalc: Command) -> None:
    """To both ends and the middle, one on top of another, held against the program."""
    page = opened(address)
    names = [slider.get_attribute("id") for slider in page.locator(".controls input[type=range]").all()]
    wanted = {"A-d", "A-n_heads", "A-n_layers", "A-length", "A-batch", "A-dtype", "A-cache"}
    assert wanted <= set(names)
    for name in names:
        slider = page.locator(f"#{name}")
        last = int(slider.get_attribute("max"))
        shown = set()
        for place in sorted({0, last // 2, last}):
            set_slider(page, name, place)
            assert totals(page) == said(page, gptcalc), (name, place)
            shown.add(page.locator(f"#{name}").get_attribute("aria-valuetext"))
        assert len(shown) == len({0, last // 2, last}), name


def set_slider(page: Any, name: str, place: int) -> None:
    page.locator(f"#{name}").evaluate(
        "(slider, place) => { slider.value = place; slider.dispatchEvent(new Event('input')); }", place
    )


@pytest.mark.parametrize(("field", "typed"), [("length", 777), ("batch", 11)])
def test_any_number_can_be_typed(field: str, typed: int, opened: Open, gptcalc: Command) -> None:
    """Exact, and what is no number leaves all as it was."""
    page = opened("#m=gpt2")
    exact = page.locator(f"#A-{field}-exact")
    exact.fill(str(typed))
    exact.press("Enter")
    assert totals(page) == said(page, gptcalc)
    assert f"{'context' if field == 'length' else field}={typed}" in page.evaluate("location.hash")
    assert page.locator(f"#A-{field}").get_attribute("aria-valuetext") == str(typed)
    again = opened(page.evaluate("location.hash"))
    assert totals(again) == totals(page)
    before = totals(page)
    for nonsense in ("0", "-3", "1.5", ""):
        page.locator(f"#A-{field}-exact").fill(nonsense)
        page.locator(f"#A-{field}-exact").press("Enter")
        assert totals(page) == before


def test_a_context_is_no_longer_than_its_table(opened: Open) -> None:
    """GPT-2 has 1,024 positions."""
    page = opened("#m=gpt2")
    page.locator("#A-length-exact").fill("1025")
    page.locator("#A-length-exact").press("Enter")
    assert page.locator("#A-length-exact").input_value() == "1024"


@pytest.mark.parametrize("model", MODELS)
def test_where_the_parameters_come_from(model: str, opened: Open) -> None:
    """Every tensor with its product; what boxes have adds up to what the card says, and to what the program counts."""
    page = opened(f"#m={model}")
    page.locator(".origin summary").click()
    *parts, whole = (int(cell.replace(",", "")) for cell in page.locator("[data-sum]").all_inner_texts())
    assert sum(parts) == whole == totals(page)["parameters"] == params(load(model).architecture).total
    rows = page.locator(".origin tbody tr:not(.part)")
    for row in rows.all():
        *_, product, number = row.locator("td").all_inner_texts()
        factors = [int(factor.replace(",", "")) for factor in product.split(" = ")[-1].split(" × ")]
        assert number == "counted elsewhere" or prod(factors) == int(number.replace(",", "")), product
    assert rows.count() > 15


def test_a_slider_stays_while_it_is_dragged(opened: Open) -> None:
    """Its element is the same from beginning to end, or the browser would let go of it."""
    page = opened("#m=gpt2")
    slider = page.locator("#A-n_layers")
    slider.evaluate("one => { one.mine = true; }")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    seen = set()
    for part in (0.6, 0.7, 0.8, 0.9):
        page.mouse.move(box["x"] + box["width"] * part, box["y"] + box["height"] / 2)
        assert slider.evaluate("one => one.mine === true")
        assert slider.get_attribute("aria-valuetext") == page.locator("output[for=A-n_layers]").inner_text()
        seen.add(totals(page)["parameters"])
    page.mouse.up()
    assert len(seen) == 4
    page.locator(".controls summary").click()
    page.locator("#A-reset").focus()
    assert page.locator("#A-n_layers").is_hidden()


def test_a_slider_by_keys(opened: Open) -> None:
    page = opened("#m=gpt2")
    page.locator("#A-n_layers").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "A-n_layers"
    assert page.locator("#A-n_layers").get_attribute("aria-valuetext") == "13"
    page.keyboard.press("ArrowLeft")
    assert totals(page)["parameters"] == 124_439_808  # the published checkpoint's


def test_themes(opened: Open) -> None:
    """As the system says, and either by the button, kept for the next time."""
    back = "getComputedStyle(document.body).backgroundColor"
    dark, light = opened(scheme="dark"), opened(scheme="light")
    black, white = dark.evaluate(back), light.evaluate(back)
    assert black != white
    shown = []
    for _ in range(3):
        dark.locator("#theme").click()
        shown.append((dark.locator("#theme").inner_text(), dark.evaluate(back)))
    assert shown == [("Theme: light", white), ("Theme: dark", black), ("Theme: automatic", black)]
    light.locator("#theme").click()
    light.locator("#theme").click()
    light.reload()
    light.wait_for_selector(".picture")
    assert light.evaluate(back) == black


def test_two_models(opened: Open, gptcalc: Command) -> None:
    page = opened("#m=gpt2")
    page.locator("#beside").click()
    assert [pane.locator("select").input_value() for pane in page.locator(".pane").all()] == list(MODELS)
    for pane in (0, 1):
        assert totals(page, pane) == said(page, gptcalc, pane)
    page.locator("label[for='B-mtp-on']").click()
    assert totals(page, 1) == said(page, gptcalc, 1)
    for pane in page.locator(".pane").all():
        rows = pane.locator(".equations tbody tr")
        marked = pane.locator(".equations tbody tr.differs")
        assert 0 < marked.count() < rows.count()
    page.locator("#B-model").select_option("gpt2")
    assert page.locator("tr.differs").count() == 0  # the same model has no line of its own
    page.locator("label[for='B-heads-mqa']").click()
    assert page.locator("tr.differs").count() > 0
    page.locator(".pane").nth(0).locator(".close").click()
    assert page.locator(".pane").count() == 1
    assert "heads=mqa" in page.evaluate("location.hash")


def test_a_link_shares_the_settings(opened: Open) -> None:
    """What the address says is shown, and is what it was."""
    address = (
        "#m=gpt2&heads=gqa&position=rope&d=1536&n_kv_heads=2&context=256&batch=8&phase=decode&dtype=int8&cache=fp8"
    )
    page = opened(address + "|m=deepseek-v3&mlp=dense&n_layers=40&context=8192")
    assert page.evaluate("location.hash") == address + "|m=deepseek-v3&mlp=dense&n_layers=40&context=8192"
    first = [totals(page, pane) for pane in (0, 1)]
    page.locator("#A-reset").click()
    assert totals(page)["parameters"] == 124_439_808
    page.evaluate("address => { location.hash = address; }", address)
    page.wait_for_function("document.querySelectorAll('.pane').length === 1")
    assert totals(page) == first[0]
    nonsense = opened("#m=none&d=-1&heads=x&n_layers=0&context=abc&phase=y&dtype=z")
    assert totals(nonsense)["parameters"] == 124_439_808


@pytest.mark.parametrize("address", ["#m=gpt2", "#m=deepseek-v3&mtp=on&phase=decode", "#m=gpt2&past=recurrent"])
def test_every_box_opens_its_equations(address: str, opened: Open) -> None:
    """By a click and by a key; every symbol of the equations is in the legend."""
    page = opened(address)
    boxes = [box.get_attribute("id") for box in page.locator("[data-box]").all()]
    for place, name in enumerate(boxes):
        box = page.locator(f"[id='{name}']")
        if place % 2:
            box.click()
        else:
            box.focus()
            page.keyboard.press("Enter")
        assert page.locator(f"[id='{name}']").get_attribute("aria-expanded") == "true"
        assert page.locator("[aria-expanded=true]").count() == 1
        used = set(page.locator(".equations tbody [data-s]").evaluate_all("all => all.map(one => one.dataset.s)"))
        told = set(page.locator("dt[data-s]").evaluate_all("all => all.map(one => one.dataset.s)"))
        assert used <= told, name
        assert page.locator(".equations tbody math").count() == page.locator(".equations tbody tr").count() > 0


def test_a_symbol_says_what_it_is(opened: Open) -> None:
    """Its meaning, its shape and its value; it lights up wherever it stands, in one colour."""
    page = opened("#m=gpt2")
    page.locator(".equations tbody [data-s='q']").first.hover(position={"x": 2, "y": 6})
    assert page.locator("#hint").inner_text().split("\n") == [
        "q queries", "T × n_heads × d/n_heads = 1,024 × 12 × 64 = 786,432",
    ]  # fmt: skip
    page.locator(".equations tbody [data-s='h']").first.hover()
    assert page.locator("#hint").inner_text().split("\n") == ["h heads", "n_heads = 12"]
    lit = page.locator(".lit")
    assert lit.count() > 5
    colours = set(lit.evaluate_all("all => all.map(one => getComputedStyle(one).color)"))
    fill = page.locator("tspan.lit").first.evaluate("one => getComputedStyle(one).fill")
    assert colours == {fill}  # alike in picture, equation and legend
    page.keyboard.press("Escape")
    assert page.locator("#hint").is_hidden()


def test_numbers_beside_equations_move(opened: Open) -> None:
    """Half of a head's channels turn: 32 pairs in GPT-2, 64 with d twice as wide; the width beside its letter, too."""
    for address, pairs, width in (
        ("#m=gpt2&position=rope", "d/n_heads/2 = 32", "768"),
        ("#m=gpt2&position=rope&d=1536", "d/n_heads/2 = 64", "1,536"),
    ):
        legend = opened(address).locator(".legend")
        said = " ".join(legend.locator("dd").all_inner_texts())
        assert f"pairs of channels that turn {pairs}" in said
        assert f"how many channels of the residual stream {width}" in said
        assert "base of the frequencies 10,000" in said


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window(width: str, opened: Open) -> None:
    for address in ("#m=gpt2", "#m=deepseek-v3", "#m=gpt2|m=deepseek-v3"):
        page = opened(address, WIDTHS[width])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address


def test_in_print_there_is_nothing_to_press(opened: Open) -> None:
    page = opened("#m=gpt2")
    page.emulate_media(media="print")
    assert page.locator(".controls").is_hidden()
    assert page.locator("#theme").is_hidden()
    assert page.locator(".picture").is_visible()
    assert page.locator(".equations math").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", ["desktop", "phone"])
@pytest.mark.parametrize("address", ["#m=deepseek-v3", "#m=gpt2|m=deepseek-v3"])
def test_accessibility(address: str, width: str, scheme: str, opened: Open) -> None:
    """No serious finding of axe."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page = opened(address, WIDTHS[width], scheme)
    closed = page.locator("details:not([open]) > summary")
    while closed.count():
        closed.first.click()
    found = axe.Axe().run(page).response["violations"]
    serious = [
        f"{own['id']}: {own['nodes'][0]['html'][:200]}" for own in found if own["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_without_a_script_a_terminal_is_named(browser: Any, file: Path) -> None:
    """Its counts are there all the same: GPT-2's 124,439,808."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    said = page.locator("#panes").inner_text()
    context.close()
    assert "gptcalc explain MODEL" in said
    assert "gpt2: 124,439,808 parameters" in said
