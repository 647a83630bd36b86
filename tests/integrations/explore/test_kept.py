"""A session that is kept in a file: written by a button, taken up again, deleted by a button, without values of the
data.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from duckanon.errors import InvalidInput
from duckanon.integrations.explore.kept import Kept
from tests.integrations.explore.pages import VOTERS, enter, serving
from tests.integrations.explore.test_page import Watched, browser

__all__ = ["browser"]  # the fixture

ROW = {"k": 5, "information_loss": 0.25, "min_class": 5, "classes": 12, "suppressed": 0}
SOLUTION = {"at": "#k?table=people&l=1", "told": "by age, order, l = 1", "row": ROW}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text("age,town\n" + "".join(f"{20 + i % 60},{'ab'[i % 2]}\n" for i in range(120)))
    return path


def test_a_session_is_kept_told_and_deleted(data: Path, tmp_path: Path) -> None:
    kept = Kept(data)
    assert kept.told() is None
    kept.keep("#k?table=people", [SOLUTION])
    assert kept.path == data.with_name("people.csv.duckanon-session.json")
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert sorted(one.name for one in tmp_path.iterdir()) == ["people.csv", kept.path.name]
    told = Kept(data).told()
    assert told is not None
    assert {name: told[name] for name in ("at", "is_same", "solutions")} == {
        "at": "#k?table=people",
        "is_same": True,
        "solutions": [SOLUTION],
    }
    kept.forget()
    assert not kept.path.exists()
    kept.forget()


def test_figures_of_other_data_are_left_out(data: Path) -> None:
    Kept(data).keep("#k?table=people", [SOLUTION])
    data.write_text(data.read_text() + "30,c\n")
    told = Kept(data).told()
    assert told is not None
    assert (told["at"], told["is_same"], told["solutions"]) == ("#k?table=people", False, [])


@pytest.mark.parametrize(
    ("at", "solutions"),
    [
        (None, []),
        ("#" + "x" * 9000, []),
        ("#k", "all"),
        ("#k", [SOLUTION] * 201),
        ("#k", [{**SOLUTION, "rows": [["flu", 31]]}]),
        ("#k", [{**SOLUTION, "row": {**ROW, "k": "flu"}}]),
        ("#k", [{**SOLUTION, "told": "x" * 3000}]),
    ],
)
def test_nothing_else_is_kept(data: Path, at: Any, solutions: Any) -> None:
    kept = Kept(data)
    with pytest.raises(InvalidInput, match="A session is an address and the settings"):
        kept.keep(at, solutions)
    assert not kept.path.exists()


@pytest.mark.parametrize("text", ["", "age\n1\n", "[]", "{}", '{"form": "duckanon explore session 1"}'])
def test_another_file_is_neither_written_nor_deleted(data: Path, text: str, tmp_path: Path) -> None:
    other = tmp_path / "mine.json"
    other.write_text(text)
    with pytest.raises(InvalidInput, match="is no session of this page"):
        Kept(data, other)
    beside = Kept(data)
    beside.path.write_text(text)
    assert beside.told() is None
    for work in (lambda: beside.keep("#k", []), beside.forget):
        with pytest.raises(InvalidInput, match="is no session of this page"):
            work()
    assert other.read_text() == beside.path.read_text() == text


def test_a_folder_that_is_not_there_is_told(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot be written: No such file or directory. Name another file"):
        Kept(data, tmp_path / "none" / "mine.json").keep("#k", [])


def test_the_page_keeps_figures_and_settings_alone(data: Path) -> None:
    """What is more than a setting has is not written; what is no request of its kind is refused."""
    with serving(data) as (_, address):
        client = enter(address)
        assert client.post("/keep", at="#k", solutions=[{**SOLUTION, "row": {**ROW, "values": ["flu"]}}]) == (200, {})
        status, told = client.post("/keep", at="#k", path="/etc/passwd")
        assert (status, "fields of its kind" in told["error"]) == (400, True)
        kept = json.loads(client.send("GET", "/session")[2])["kept"]
        assert kept["solutions"] == [SOLUTION]
        assert client.post("/forget") == (200, {})
        assert json.loads(client.send("GET", "/session")[2])["kept"] is None


def test_going_on_where_one_was(browser: Any, tmp_path: Path) -> None:
    """In a named file; the figures are those that were computed, and no value of the data is in the file."""
    data, session = tmp_path / "voters.csv", tmp_path / "elsewhere.json"
    data.write_bytes(VOTERS.read_bytes())
    start = "#k?table=voters&quasi=age&quasi=education&sensitive=vote&dropped=income"
    with serving(data, session=session) as (_, address):
        it = _opened(browser, address, start)
        it.page.get_by_text(re.compile("^loses .* of the information")).wait_for()
        assert not session.exists()
        it.page.get_by_role("button", name="Keep this session").click()
        it.page.get_by_text("Kept in elsewhere.json").wait_for()
        it.page.get_by_label(re.compile("^l: different values of vote")).fill("1")
        it.page.get_by_label("t-closeness").click()
        it.page.get_by_text("Settings side by side").wait_for()
        it.page.locator(".work").first.wait_for(state="detached")
        it.check()
        it.page.wait_for_timeout(800)
        it.close()
    text = session.read_text()
    assert len(json.loads(text)["solutions"]) == 2
    for value in ("Clinton", "Trump", "high school", "college", "master"):
        assert value not in text
    with serving(data, session=session) as (_, address):
        it = _opened(browser, address, "")
        it.page.get_by_text(re.compile("A session of .* was kept")).wait_for()
        it.check()
        it.page.get_by_role("button", name="Go on there").click()
        it.page.get_by_text("l = 1: nothing keeps a class from agreeing on vote").wait_for()
        it.page.locator(".work").first.wait_for(state="detached")
        assert it.page.get_by_role("link", name=re.compile(", order, l = [12]$")).count() == 2
        it.page.get_by_role("button", name="Undo").wait_for(state="hidden")
        it.page.get_by_role("button", name="Delete it").last.click()
        it.page.get_by_role("button", name="Keep this session").wait_for()
        assert not session.exists()
        it.close()


def _opened(browser: Any, address: str, at: str) -> Watched:
    context = browser.new_context(viewport={"width": 400, "height": 800}, reduced_motion="reduce")
    it = Watched(context, address)
    if at:
        it.page.goto(it.base + at)
        it.page.wait_for_selector("body[data-shown=k]")
    return it


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links are followed here")
def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    kept, other = Kept(tmp_path / "people.csv", tmp_path / "session.json"), tmp_path / "other"
    other.write_text("mine")
    (tmp_path / "session.json.part").symlink_to(other)
    with pytest.raises(InvalidInput, match="cannot be written"):
        kept.keep("k=5", [])
    assert other.read_text() == "mine"
