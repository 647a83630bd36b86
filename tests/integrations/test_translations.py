"""What catalogues hold, and how languages write texts, numbers and days."""

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from duckanon.errors import InvalidInput
from duckanon.integrations import translations
from duckanon.integrations.translations import catalogue, counted, exact, gettext, ngettext, retold, speaking

INTEGRATIONS = Path(translations.__file__).parent
# What pages and their pictures are made by.
SOURCES = [
    *sorted((INTEGRATIONS / "report").glob("*.py")),
    INTEGRATIONS / "copied_columns.py",
    INTEGRATIONS / "translations.py",
    *(INTEGRATIONS / "plots" / f"{name}.py" for name in ("cell_bounds", "group_sizes", "mechanism", "style")),
]
FIELD = re.compile(r"\{\w+\}")


def calls() -> Iterator[tuple[str, list[str]]]:
    """The calls that name texts, with their arguments that are texts."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                constants = [one.value for one in node.args if isinstance(one, ast.Constant)]
                yield name, [one for one in constants if isinstance(one, str)]
    jinja2 = pytest.importorskip("jinja2")
    from jinja2.ext import extract_from_ast

    for path in sorted((INTEGRATIONS / "report").glob("*.html")):
        tree = jinja2.Environment(autoescape=True).parse(path.read_text(encoding="utf-8"))
        for _, name, found in extract_from_ast(tree, ("_", "html", "counted")):
            texts = (found,) if isinstance(found, str) else found or ()
            yield name, [one for one in texts if one is not None]


def messages() -> set[str]:
    """The texts that pages may show, but for those for several."""
    found: set[str] = set()
    for name, texts in calls():
        if name in ("_", "gettext", "html", "ngettext", "counted") and texts:
            found.add(texts[0])
        elif name == "retold":
            found |= set(texts)
    return found


def test_the_catalogue_has_each_text_of_the_pages_and_no_other() -> None:
    assert set(catalogue("de")) == messages()


def test_what_is_counted_has_two_translations_and_all_else_one() -> None:
    twice = {texts[0] for name, texts in calls() if name in ("ngettext", "counted") and texts}
    assert {message for message, told in catalogue("de").items() if len(told) == 2} == twice


def test_translations_have_the_fields_and_tags_of_their_texts() -> None:
    for message, told in catalogue("de").items():
        for translation in told:
            assert translation
            assert set(FIELD.findall(translation)) == set(FIELD.findall(message))
            for tag in ("<strong>", "</strong>", "<code>", "</code>"):
                assert translation.count(tag) == message.count(tag)


def test_a_language_holds_for_its_context() -> None:
    assert gettext("Ledger") == "Ledger"
    with speaking("de"):
        assert gettext("Ledger") == "Protokoll"
        assert gettext("not there") == "not there"
        with speaking("en"):
            assert gettext("Ledger") == "Ledger"
        assert gettext("Ledger") == "Protokoll"
    assert gettext("Ledger") == "Ledger"


def test_plurals_follow_the_number() -> None:
    assert [counted("{n} row", "{n} rows", many) for many in (0, 1, 2_000)] == ["0 rows", "1 row", "2,000 rows"]
    with speaking("de"):
        rows = [counted("{n} row", "{n} rows", many) for many in (0, 1, 2_000)]
        assert ngettext("{n} thing", "{n} things", 2) == "{n} things"
    assert rows == ["0 Zeilen", "1 Zeile", "2.000 Zeilen"]


def test_numbers_and_days_are_written_as_the_language_does() -> None:
    moment = datetime(2026, 11, 30, 9, 5, 1, tzinfo=UTC)

    def written() -> list[str]:
        numbers = [translations.number(12629), translations.number(-1234.5, ",.1f"), translations.number(None)]
        shares = [translations.share(0.0877), translations.share(None), exact("1/3"), exact("0.1"), exact("1,024.5")]
        days = [translations.day(moment), translations.day("2026-11-30"), translations.day(moment, seconds=False)]
        return [*numbers, *shares, *days, translations.day(moment, seconds=True)]

    days = ["2026-11-30", "2026-11-30", "2026-11-30 09:05", "2026-11-30 09:05:01"]
    assert written() == ["12,629", "-1,234.5", "", "8.77 %", "", "1/3", "0.1", "1,024.5", *days]
    days = ["30.11.2026", "30.11.2026", "30.11.2026 09:05", "30.11.2026 09:05:01"]
    with speaking("de"):
        assert written() == ["12.629", "-1.234,5", "", "8,77 %", "", "1/3", "0,1", "1.024,5", *days]
        # A version is no number.
        assert exact("1.4.0") == "1.4.0"


def test_a_text_that_was_written_in_english_is_told_again() -> None:
    text = "about 1,200 more counts at 0.1 each, within 29 of the truth, 3 of them in this edition"
    forms = [
        "about {several} more counts at {price} each, within {width} of the truth",
        "about {several} more counts at {price} each, within {width} of the truth, {now} of them in this edition",
    ]
    assert retold(text, *forms) == text
    with speaking("de"):
        told = "noch etwa 1.200 Zählungen zu je 0,1, höchstens 29 neben dem wahren Wert, davon 3 in dieser Ausgabe"
        assert retold(text, *forms) == told
        assert retold("something else", *forms) == "something else"


def test_lists_end_in_and() -> None:
    assert [translations.listed(one) for one in ([], ["a"], ["a", "b", "c"])] == ["", "a", "a, b and c"]
    with speaking("de"):
        assert translations.listed(["a", "b", "c"]) == "a, b und c"


def test_another_language_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no page in the language 'fr': choose one of en, de"), speaking("fr"):
        pass
