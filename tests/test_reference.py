"""What pages say is what the code says: generated parts are up to date, and each algorithm has a page."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from duckanon.engines.kanon.methods.freeform import FREEFORM
from duckanon.engines.registry import families
from duckanon.specification import functions
from tests.reference import DOCS, MAP, pages, written

ROOT = DOCS.parent

GENERATED = dict(pages())
OVERVIEWS = {
    "kanon": "kanon-methods.md",
    "cells": "cell-methods.md",
    "groups": "group-size-mechanisms.md",
    "metric": "metric-methods.md",
    "tables": "table-methods.md",
}


@pytest.mark.parametrize("page", GENERATED, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_is_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == written(text, GENERATED[page]), "run: python -m tests.reference"


@pytest.mark.parametrize("family", families())
def test_each_algorithm_has_a_page_and_no_other_thing_has(family: str) -> None:
    found = {page.stem: page.read_text(encoding="utf-8") for page in (DOCS / "algorithms" / family).glob("*.md")}
    # Three baselines of one idea, in a registry of their own, share a page.
    assert set(found) == set(families()[family]) | ({"freeform"} if family == "kanon" else set())
    assert family != "kanon" or all(f"`{name}`" in found["freeform"] for name in FREEFORM)
    overview = (DOCS / "algorithms" / OVERVIEWS[family]).read_text(encoding="utf-8")
    for name, text in found.items():
        assert text.startswith(f"# {name}: ")
        for part in ("**Guarantee.** ", "**When to use it.** ", "\nCode: ", " Tests: "):
            assert part in text, (name, part)
        assert f"]({family}/{name}.md)" in overview, f"{OVERVIEWS[family]} does not link to {name}"


def test_no_page_is_lost() -> None:
    """From the entrance every page can be reached."""
    seen, ahead = set(), [DOCS / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in seen:
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)#:]+\.md)[^)]*\)", page.read_text(encoding="utf-8"))
        ahead += [found for link in links if (found := (page.parent / link).resolve()).is_relative_to(DOCS)]
    assert set(DOCS.rglob("*.md")) - seen == set(), "link it from docs/README.md"


def test_a_part_without_a_place_is_noticed() -> None:
    parts: Mapping[str, str] = {"facts": "x"}
    with pytest.raises(ValueError, match=r"^There is no place for <!-- facts -->"):
        written("# page", parts)
    assert written("<!-- facts -->\nold\n<!-- /facts -->", parts) == "<!-- facts -->\nx\n<!-- /facts -->"


def test_the_map_of_the_papers_names_what_exists() -> None:
    text = (DOCS / "guarantee" / "papers-map.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > 100
    for file, test in named:
        found = next(
            (root / file for root in (ROOT, ROOT / "duckanon", ROOT / "tests") if (root / file).exists()), None
        )
        assert found, file
        assert not test or f"def {test}(" in found.read_text(encoding="utf-8"), (file, test)
    built = {file.removeprefix("engines/") for file, _ in named}
    for family, methods in families().items():
        used = {module.rpartition("/")[2] for module in built if module.startswith(f"{family}/")}
        for name in methods:
            code = re.findall(
                r"/(\w+\.py)\)", (DOCS / "algorithms" / family / f"{name}.md").read_text(encoding="utf-8")
            )
            assert name == "auto" or used & set(code), f"{family}/{name} is not on the map"


@pytest.mark.parametrize("page", [MAP, DOCS / "comparison.md"], ids=lambda page: page.stem)
def test_every_function_and_method_has_a_row(page: Path) -> None:
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    named = set(re.findall(r"[`\[](\w+)[`\]]", "\n".join(rows)))
    assert {*functions(), *(name for methods in families().values() for name in methods)} - named == set()
