"""The page in Chromium: an officer's way through all screens, by mouse and keyboard, light and dark, wide and narrow.

With DUCKANON_PICTURES set, the pictures of the documentation are written.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import duckanon
from duckanon.integrations.reading import Reading
from tests.extras import needs
from tests.integrations.explore.pages import enter, protected, serving

DOCS = Path(__file__).parents[3] / "docs" / "how-to"
PICTURES = "DUCKANON_PICTURES" in os.environ
STEPS = ["table", "variables", "k", "designs", "groups", "suppress", "compare", "release"]
# No request of Chromium's own, which the test would take for one of the page.
FLAGS = """--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
  --disable-component-update --disable-sync""".split()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    needs("browser")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        said = "There is no Chromium here to open the page with."
        if os.environ.get("CI") or os.environ.get("DUCKANON_ALL_EXTRAS"):
            pytest.fail(said)
        pytest.skip(said)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=chromium, args=FLAGS)
        yield started
        started.close()


class Watched:
    """A page of a browser's context, with all that it asked for and complained about."""

    def __init__(self, context: Any, address: str) -> None:
        self.page = context.new_page()
        self.page.set_default_timeout(120_000)
        self.asked: list[str] = []
        self.told: list[str] = []
        self.page.on("request", lambda one: self.asked.append(one.url))
        self.page.on("console", lambda one: self.told.append(one.text))
        self.page.on("pageerror", lambda one: self.told.append(str(one)))
        self.page.goto(address)
        self.page.wait_for_selector("body[data-ready]")
        self.origin = re.sub(r"(?<=\d)/.*", "", address)
        self.base = self.page.url.partition("#")[0]

    def go(self, step: str) -> None:
        """To a step, by its link at the left."""
        self.page.locator("nav a").nth(STEPS.index(step)).click()
        self.shown(step)

    def shown(self, step: str) -> None:
        self.page.wait_for_selector(f"body[data-shown={step}]")
        self.page.locator(".work").first.wait_for(state="detached")

    def check(self) -> None:
        """No serious finding of axe, nothing wider than the window."""
        import axe_core_python

        self.page.evaluate((Path(axe_core_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
        # A button that was just enabled still has some of the colour of one that is not.
        self.page.evaluate("() => Promise.all(document.getAnimations().map(one => one.finished))")
        # It takes the links to the steps, which hold the choices after #, for links to a place on the page.
        options = {"resultTypes": ["violations"], "rules": {"skip-link": {"enabled": False}}}
        found = self.page.evaluate("options => axe.run(document, options)", options)["violations"]
        assert [(one["id"], one["nodes"][0]["html"], one["nodes"][0]["failureSummary"]) for one in found] == []
        assert self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    def picture(self, name: str) -> None:
        if PICTURES:
            self.page.mouse.move(5, 790)
            self.page.screenshot(path=DOCS / f"explore-{name}.png")

    def close(self) -> None:
        """Every request stayed on this machine, and nothing was complained about."""
        assert {one for one in self.asked if not one.startswith(f"{self.origin}/")} == set()
        assert self.told == []
        self.page.close()


@pytest.fixture(scope="module")
def entered(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    """A context that has entered a session about the shop, and the address without the key."""
    path = protected(tmp_path_factory.mktemp("explore") / "shop.duckdb")
    digest = hashlib.sha256(path.read_bytes()).digest()
    with serving(path) as (service, address):
        context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
        context.new_page().goto(address)
        yield context, f"http://127.0.0.1:{service.port}{service.keys.path}/"
        context.close()
    assert hashlib.sha256(path.read_bytes()).digest() == digest


@pytest.fixture
def it(entered: tuple[Any, str]) -> Iterator[Watched]:
    watched = Watched(entered[0], f"{entered[1]}#table?table=voters")
    yield watched
    watched.close()


@pytest.mark.ci("a whole walk in a browser, whose steps have tests of their own")
def test_an_officers_way_to_a_release_in_the_report(browser: Any, tmp_path: Path) -> None:
    path = protected(tmp_path / "shop.duckdb")
    digest = hashlib.sha256(path.read_bytes()).digest()
    with serving(path) as (_, address):
        it = Watched(browser.new_context(viewport={"width": 1280, "height": 800}), address)
        _choose_a_table_and_roles(it)
        _choose_k(it)
        _choose_a_design(it)
        _look_at_noise_rows_and_texts(it)
        # So far nothing has changed.
        assert hashlib.sha256(path.read_bytes()).digest() == digest
        _release_and_report(it, lambda: hashlib.sha256(path.read_bytes()).digest() == digest)
        it.close()


def _choose_a_table_and_roles(it: Watched) -> None:
    page = it.page
    # The key is not in the address any more.
    assert page.evaluate("location.search") == ""
    page.get_by_role("radio", name="residents").check()
    page.get_by_text("240 rows").first.wait_for()
    page.get_by_role("radio", name="voters").check()
    page.get_by_role("heading", name="Policy").wait_for()
    it.check()
    it.picture("table")

    it.go("variables")
    page.get_by_text("101 of 944 records stand alone").wait_for()
    page.get_by_label("Role of tv_news").select_option("quasi")
    page.get_by_text(re.compile("By age, education and tv_news there are")).wait_for()
    assert "quasi=tv_news" in page.url
    it.check()
    it.picture("variables")
    page.get_by_label("Role of tv_news").select_option("dropped")


def _choose_k(it: Watched) -> None:
    page = it.page
    it.go("k")
    page.get_by_text("loses 1.3 % of the information").wait_for()
    page.get_by_label("k = 5").press("ArrowRight")
    page.get_by_label("k = 7").wait_for()
    page.get_by_label("k = 7").press("ArrowLeft")
    it.check()
    it.picture("k")


def _choose_a_design(it: Watched) -> None:
    page = it.page
    it.go("designs")
    page.get_by_text(re.compile("^180 of 180 designs shown")).wait_for()
    page.get_by_label("Across: what is given away").select_option("disclosed_rows")
    page.get_by_label("Up: what is kept").select_option("dependence")
    page.locator("canvas").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.locator(".tip").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("group", name="Cells", exact=True).wait_for()
    page.get_by_role("button", name="Shares", exact=True).click()
    assert page.get_by_role("group", name="Cells", exact=True).get_by_text("%").count() > 5
    page.get_by_role("button", name="Bounds", exact=True).click()
    page.get_by_role("button", name="What else could be published?").click()
    page.get_by_text("safe", exact=True).first.wait_for()
    it.check()
    page.get_by_label("Designs", exact=True).scroll_into_view_if_needed()
    page.evaluate("scrollTo(0, document.querySelector('.split').closest('section').offsetTop - 72)")
    it.picture("designs")


def _look_at_noise_rows_and_texts(it: Watched) -> None:
    page = it.page
    it.go("groups")
    page.get_by_text("nothing was charged, and shop.duckdb was not read").wait_for()
    it.check()
    it.picture("groups")

    it.go("suppress")
    page.get_by_text("cells are sensitive").wait_for()
    it.check()

    it.go("compare")
    page.get_by_text("944 records in 153 classes").wait_for()
    it.check()
    it.picture("compare")

    it.go("release")
    page.get_by_role("tabpanel").get_by_text("k_anonymize").wait_for()
    page.get_by_role("tab", name="dbt model").click()
    page.get_by_role("tabpanel").get_by_text('ref("voters")').wait_for()
    page.get_by_role("tab", name="SQL").click()
    it.check()
    it.picture("release")


def _release_and_report(it: Watched, is_unchanged: Callable[[], bool]) -> None:
    page = it.page
    page.get_by_role("button", name="Release …").click()
    it.check()
    it.picture("confirm")
    page.get_by_role("button", name="Not now").click()
    assert is_unchanged()
    page.get_by_role("button", name="Release …").click()
    page.get_by_role("button", name="Release and publish").click()
    page.get_by_text("voters_anonymous has 944 rows.").wait_for()
    page.get_by_role("button", name="Add it to the report").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the report").click()
    assert "voters_anonymous" in Path(download.value.path()).read_text(encoding="utf-8")
    it.check()
    it.go("table")
    page.get_by_role("radio", name="voters_anonymous").wait_for()


@pytest.mark.ci("a look at every screen, whose steps have tests of their own")
def test_every_screen_in_every_width_and_scheme(it: Watched) -> None:
    for step in STEPS:
        it.go(step)
        for width, scheme in ((400, "light"), (800, "light"), (2000, "light"), (1280, "dark")):
            it.page.set_viewport_size({"width": width, "height": 800})
            it.page.emulate_media(color_scheme=scheme)
            it.check()
        if step == "designs":
            it.picture("dark")
    it.page.emulate_media(color_scheme="light")


def test_by_keyboard_alone(it: Watched) -> None:
    page = it.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the step"
    page.keyboard.press("Enter")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "table":
            break
    page.keyboard.press("ArrowUp")
    page.get_by_text("2,000 rows").first.wait_for()
    page.keyboard.press("ArrowDown")
    page.get_by_text("944 rows").first.wait_for()
    for label, step in (("Next: Variables", "variables"), ("Next: k", "k"), ("Next: Table designs", "designs")):
        _tab_to(page, label)
        page.keyboard.press("Enter")
        it.shown(step)
    page.get_by_text(re.compile("designs? shown")).wait_for()
    _tab_to(page, re.compile("^keeps .* follow"))
    page.keyboard.press("Enter")
    page.get_by_role("group", name="Cells", exact=True).wait_for()


def _tab_to(page: Any, label: str | re.Pattern[str]) -> None:
    for _ in range(80):
        page.keyboard.press("Tab")
        if re.match(label, page.evaluate("document.activeElement.textContent")):
            return
    raise AssertionError(f"Tab does not lead to {label}")


def test_cancel_and_again_then_a_link_back_to_the_state(it: Watched) -> None:
    page = it.page
    variables = [f"variables=a{i}" for i in range(9)]
    page.goto(f"{it.base}#designs?table=survey&{'&'.join(variables)}")
    page.get_by_text(re.compile("18,660 designs")).wait_for()
    for _ in range(2):
        begin = page.get_by_role("button", name="Compute all designs")
        if begin.is_visible():
            begin.click()
        # On a busy machine the work may have ended before it is cancelled.
        page.evaluate("() => setTimeout(() => document.querySelector('.work button')?.click(), 50)")
        page.get_by_text(re.compile(r"Cancelled\.|designs shown")).first.wait_for()
    page.goto(f"{it.base}#designs?table=survey&{'&'.join(variables[:4])}")
    page.get_by_text(re.compile("^50 of 50 designs shown")).wait_for()
    link = page.url
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.get_by_text(re.compile("^50 of 50 designs shown")).wait_for()
    assert page.url == link
    it.go("variables")
    page.go_back()
    it.shown("designs")


def test_markup_in_names_and_values_stays_text(it: Watched) -> None:
    page = it.page
    for table in ("empty", "odd"):
        it.go("table")
        page.get_by_role("radio", name=table).check()
        page.get_by_role("heading", name=table).wait_for()
        for step in STEPS[1:]:
            it.go(step)
            if (table, step) == ("odd", "variables"):
                for choice in page.locator("select[data-column]").all():
                    if choice.locator("option[value=quasi]").count():
                        choice.select_option("quasi")
    page.get_by_role("tabpanel").get_by_text("onerror").wait_for()
    it.go("designs")
    page.get_by_label("The best designs by these axes, safest first").get_by_role("button").first.click()
    page.get_by_role("group", name="Cells", exact=True).get_by_text("<b>bold</b>").first.wait_for()
    it.check()
    assert page.locator("main img, main b:has-text('bold')").count() == 0


def test_conditions_mistakes_settings_and_undo(it: Watched) -> None:
    page = it.page
    it.go("k")
    page.get_by_text("l = 2: in no class do all agree on vote").wait_for()
    field = page.get_by_label(re.compile("^l: different values of vote"))
    field.fill("many")
    page.get_by_text("A whole number from 1 to 1,000.").wait_for()
    assert "l=" not in page.url
    field.fill("1")
    field.press("Tab")
    page.get_by_text("l = 1: nothing keeps a class from agreeing on vote").wait_for()
    page.locator(".work").first.wait_for(state="detached")
    page.get_by_text("Settings side by side").wait_for()
    assert page.get_by_role("link", name=re.compile(", order, l = [12]$")).count() == 2
    assert not re.search(r"\bnull\b", page.locator("main").inner_text())
    it.check()
    page.get_by_role("link", name="by age and education, order, l = 2").click()
    page.get_by_text("l = 2: in no class do all agree on vote").wait_for()
    page.go_back()
    page.get_by_text("l = 1: nothing keeps").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("l = 2: in no class").wait_for()


def test_a_copy_that_nothing_protects_is_asked_for_twice(it: Watched) -> None:
    page = it.page
    page.goto(f"{it.base}#release?table=voters&l=1&quasi=age&sensitive=vote&dropped=income")
    page.get_by_role("button", name="Release …").click()
    dialog = page.get_by_role("dialog")
    for told in ("5: each class has so many records or more", "1: a class may agree", "education, town"):
        dialog.get_by_text(told).wait_for()
    dialog.get_by_role("button", name="Release and publish").click()
    dialog.get_by_text("Nothing protects vote").wait_for()
    dialog.get_by_role("button", name="Release and publish all the same").wait_for()
    it.check()
    dialog.get_by_role("button", name="Not now").click()


def test_a_file_of_households_at_400_pixels(browser: Any, tmp_path: Path) -> None:
    """In Windows-1252, with decimal commas and texts for missing values: what was found is told, units are counted."""
    towns = ["Köln", "Düren"]
    rows = "".join(
        f"{i // 3};{i};{20 + i % 331 if i % 11 else 'k.A.'};{1000 + i % 7},50;{towns[i % 2]};{'abc'[i % 3]}\r\n"
        for i in range(600)
    )
    path = tmp_path / "haushalte.csv"
    path.write_bytes(f"Haushalt;Person;Alter;Einkommen;Ort;Diagnose\r\n{rows}".encode("cp1252"))
    with serving(path, reading=Reading(null=("k.A.",))) as (_, address):
        context = browser.new_context(viewport={"width": 400, "height": 800}, reduced_motion="reduce")
        it = Watched(context, address)
        it.page.get_by_text("read as Windows-1252, since it is not UTF-8").wait_for()
        it.page.get_by_text("Einkommen is read with decimal commas").wait_for()
        it.go("variables")
        it.page.get_by_text(re.compile(r"of 200 values of Haushalt stand alone")).wait_for()
        assert it.page.get_by_label("Role of Diagnose").is_visible()
        it.check()
        it.go("release")
        it.page.get_by_role("tab", name="Command line").click()
        it.page.get_by_role("tabpanel").get_by_text("--null k.A.").wait_for()
        it.check()
        it.close()
        context.close()


def test_a_suppressed_table_from_its_rules_to_print(it: Watched) -> None:
    page = it.page
    page.goto(f"{it.base}#suppress?table=voters&down=party&right=tv_news")
    it.shown("suppress")
    page.get_by_text("9 cells are sensitive, and 4 more are suppressed to protect them.").wait_for()
    cells = page.get_by_role("group", name="Cells", exact=True)
    assert cells.get_by_text("x", exact=True).count() == 13
    assert (cells.locator("td.primary").count(), cells.locator("td.secondary").count()) == (9, 4)
    page.evaluate("scrollTo(0, document.querySelector('table.heat').closest('section').offsetTop - 72)")
    it.picture("suppress")
    for view, told in (("True", "37"), ("What readers know", "1 to 8"), ("Costs", "3.64")):
        page.get_by_role("button", name=view, exact=True).click()
        cells.get_by_text(told, exact=True).first.wait_for()
        it.check()
    page.get_by_role("button", name="Cell key", exact=True).click()
    cells.get_by_text(re.compile(r"[(][+−]\d+[)]")).first.wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).click()
    assert download.value.suggested_filename == "voters_suppressed.csv"
    assert Path(download.value.path()).read_text(encoding="utf-8").splitlines()[1].startswith('"Total","944","161"')
    page.get_by_label("Fewer contributors than").fill("1")
    page.get_by_text("A whole number from 2 to 1,000,000.").wait_for()
    page.get_by_label("Fewer contributors than").fill("2")
    page.get_by_label("Fewer contributors than").press("Tab")
    page.get_by_text(re.compile("1 cell is sensitive, and")).wait_for()
    # A second column of rows makes a hierarchy, which indents its rows.
    page.get_by_role("group", name="Rows, the widest first").get_by_label("vote").check()
    page.get_by_role("button", name="Suppress", exact=True).click()
    cells.locator("th.deep1").first.wait_for()
    it.check()
    it.go("release")
    page.get_by_text("party, vote × tv_news").last.click()
    page.get_by_role("tabpanel").get_by_text("suppressed := 'suppressed'").wait_for()


def test_a_second_browser_cannot_enter(browser: Any, tmp_path: Path) -> None:
    with serving(protected(tmp_path / "shop.duckdb")) as (service, address):
        enter(address)
        page = browser.new_context().new_page()
        assert page.goto(address).status == 403
        assert page.goto(f"http://127.0.0.1:{service.port}/").status == 403
        page.context.close()


@pytest.fixture(scope="module")
def planning(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """The screen with tables that could be prepared together, of a table in a population with a delta."""
    path = tmp_path_factory.mktemp("planned") / "shop.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(
            "CREATE TABLE people AS SELECT i AS person, ['north', 'east', 'south', 'west'][1 + i % 4] AS region, "
            "['f', 'm'][1 + i // 4 % 2] AS sex, 20 + i % 50 AS age, i % 3 = 0 AS moved FROM range(4000) r(i)"
        ).fetchall()
        con.execute(
            "SELECT protect('people', privacy_unit := 'person', rows_per_unit := 1, epsilon := 4, delta := 1e-9, "
            "per_query := 0.01, public := ['region', 'sex', 'age', 'moved'], domains := {"
            "'region': ['north', 'east', 'south', 'west'], 'sex': ['f', 'm'], 'moved': [true, false], "
            "'age': {'from': 20, 'to': 69, 'step': 1}})"
        ).fetchall()
    digest = hashlib.sha256(path.read_bytes()).digest()
    with serving(path) as (service, address):
        context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
        context.new_page().goto(address)
        watched = Watched(context, f"http://127.0.0.1:{service.port}{service.keys.path}/#groups?table=people")
        watched.shown("groups")
        yield watched
        watched.close()
        context.close()
    # A plan charges nothing.
    assert hashlib.sha256(path.read_bytes()).digest() == digest


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        pytest.param(400, "dark", marks=pytest.mark.ci("tables are planned anew")),
        pytest.param(1440, "light", marks=pytest.mark.long("another width")),
    ],
)
def test_tables_prepared_together(planning: Watched, width: int, scheme: str) -> None:
    page = planning.page
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    card = page.get_by_role("region", name="Tables prepared together")
    card.get_by_role("button", name="Plan").click()
    card.get_by_role("status").get_by_text("10 tables for 0.1 of the 2.15 that is left").wait_for()
    card.scroll_into_view_if_needed()
    planning.check()
    rows = card.locator("tbody tr")
    assert rows.count() == 10
    assert rows.get_by_text("age and region").count() == 1
    # A line for each table, which says which, in letters that are as large on a narrow screen.
    chart = card.locator("svg.chart")
    assert chart.locator("polyline.ours title").count() == 10
    assert chart.bounding_box()["width"] / chart.evaluate("one => one.viewBox.baseVal.width") > 0.95
    assert "FROM prepare(" in card.locator("pre").inner_text()
    if folder := os.environ.get("SHOTS"):
        card.screenshot(path=f"{folder}/{width}-{scheme}.png")
