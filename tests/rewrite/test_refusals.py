"""A refusal quotes the part of the statement that cannot be answered, and nothing else stands in the way."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from duckanon.errors import PolicyRefusal
from duckanon.releases import noisy_aggregates
from duckanon.rewrite import bind
from tests.rewrite.fixtures import FIXTURES, entries
from tests.rewrite.guarded import decided
from tests.rewrite.refused import refusal

REFUSED: list[dict[str, str]] = tomllib.loads((FIXTURES / "refusals.toml").read_text(encoding="utf-8"))["refused"]
_QUOTED = re.compile(r"`(?P<part>[^`]*)`(?P<more> \.\.\.)? cannot be answered\. (?P<why>.*)", re.DOTALL)
# Of TPC-H's queries these read no protected table, or are answered.
ANSWERED = {f"query {number}" for number in (2, 6, 11, 13, 14, 16, 19, 22)}


def plain(text: str) -> str:
    return " ".join(text.split())


def told(sql: str) -> tuple[str, str] | None:
    """The quoted part and the reason of a refusal; None where the statement is answered."""
    said = refusal(sql)
    if said is None:
        return None
    found = _QUOTED.match(said)
    assert found is not None, said
    return found["part"], found["why"].partition(" What may be asked: ")[0]


def replaced(sql: str, part: str, instead: str) -> str:
    """The statement with something else in place of a part, wherever that stands as a whole."""
    return re.sub(rf"(?<![\w.]){re.escape(part)}(?!\w)", lambda _: instead, plain(sql))


def faults(one: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the refusal of a statement of the list."""
    found = told(one["statement"])
    if found is None:
        yield "is answered"
        return
    part, why = found
    if part not in plain(one["statement"]):
        yield f"quotes {part!r}, which is not written there"
    if (part, why) != (one["quoted"], one["reason"]):
        yield f"says {part!r}, {why!r}"
    nearest = replaced(one["statement"], part, one["instead"])
    if nearest == plain(one["statement"]):
        yield "quotes what cannot be replaced"
        return
    again = told(nearest)
    if again is not None and again[0] == part:
        yield f"quotes a part that does not stand in the way: {again}"
    if ("then" in one) != (again is not None) or (again is not None and again[0] != one["then"]):
        yield f"without it: {again}"


@pytest.mark.parametrize("one", REFUSED, ids=lambda one: one["statement"][:70])
def test_the_part_that_cannot_be_answered_is_quoted(one: dict[str, str]) -> None:
    assert list(faults(one)) == []


def test_the_list_is_long_and_has_all_of_tpch() -> None:
    written = {one["statement"] for one in REFUSED}
    assert len(written) == len(REFUSED) >= 100 + 22 - len(ANSWERED)
    for entry in entries("tpch/queries"):
        sql = plain(entry.sql).rstrip(";")
        assert (sql in written) != (entry.title in ANSWERED), entry.title
        assert (refusal(sql) is None) == (entry.title in ANSWERED)


def test_reasons_that_were_untrue() -> None:
    """The sentences by which this list began: each spoke of something that the statement does not have."""
    for sql, part, untrue in (
        ("SELECT sum(l_quantity * l_tax) FROM lineitem", "sum(l_quantity * l_tax)", r"\bmin\b|single record"),
        ("SELECT avg(l_receiptdate - l_shipdate) FROM lineitem", "avg(l_receiptdate - l_shipdate)", r"Told with noise"),
        (next(one.sql for one in entries("tpch/queries") if one.title == "query 20"), "l_partkey = ps_partkey",
         "has no column"),
        ("SELECT count(*) FROM orders WHERE hash(orders) = 1", "hash(orders) = 1", "write the values? out"),
        ("SELECT count(*) FROM orders WHERE EXISTS (SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey)",
         "EXISTS (SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey)", "write the values out"),
    ):  # fmt: skip
        found = told(sql)
        assert found is not None
        assert found[0] == part
        assert not re.search(untrue, found[1])


def test_what_a_pivot_without_group_by_groups_by_is_named() -> None:
    others = "(c_custkey, c_name, c_address, c_nationkey, c_phone, c_acctbal, c_comment)"
    for sql in (
        "PIVOT customer ON c_mktsegment IN ('BUILDING') USING count(*)",
        "SELECT * EXCLUDE (c_mktsegment), count(*) FROM customer GROUP BY ALL",
    ):
        said = refusal(sql)
        assert said is not None
        assert f"groups by all other columns {others}: name those that are wanted in GROUP BY." in said


BAD = ["l_quantity = 'abc'", "cos(l_discount) = 2", "l_shipdate = '2020'", "l_returnflag = 3", "md5(l_comment) = 'x'"]


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT l_returnflag, count(*) FROM lineitem WHERE {} GROUP BY 1",
        "SELECT l_returnflag, count(*) / sum(count(*)) OVER () FROM lineitem WHERE {} GROUP BY ALL",
        "SELECT count(*) FILTER (WHERE {}), count(*) FROM lineitem",
        "SELECT count(*) FILTER (WHERE {0}) / count(*) FILTER (WHERE {0} AND tan(l_discount) = 2) FROM lineitem",
    ],
)
@pytest.mark.parametrize("first", range(len(BAD)))
def test_of_several_bad_conditions_the_first_is_quoted(asked: str, first: int) -> None:
    """Conditions are held in sets, so their order was that of hashes."""
    found = told(asked.format(" AND ".join(BAD[first:] + BAD[:first])))
    assert found is not None
    assert found[0] == BAD[first]


@pytest.mark.long("that the property notices a defect: a test of the test")
@pytest.mark.parametrize("defect", ["no quote", "the whole query", "the first part"])
def test_the_property_notices(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twins: reasons without a part, with all of the query as the part, and with a part that is not the cause."""
    if defect == "no quote":
        monkeypatch.setattr(bind, "quote", lambda *_: None)
    elif defect == "the whole query":
        monkeypatch.setattr(noisy_aggregates, "_refused_part", lambda context, query, place, reason: query)
    else:
        first = lambda context, query, place, reason: query.expressions[0]  # noqa: E731
        monkeypatch.setattr(noisy_aggregates, "_refused_part", first)

    def wrong(one: dict[str, str]) -> bool:
        try:
            return bool(list(faults(one)))
        except AssertionError:
            return True

    assert sum(map(wrong, REFUSED[::3])) >= 5


@pytest.mark.ci("processes with other orders of hashes")
def test_refusals_do_not_depend_on_the_order_of_hashes() -> None:
    """The same sentences in processes with other hashes of texts."""
    code = (
        "from tests.rewrite.test_refusals import REFUSED, refusal\n"
        "print([refusal(one['statement']) for one in REFUSED])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**_environment(), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(FIXTURES.parent), *sys.path])}


def test_names_and_values_of_others_are_not_quoted() -> None:
    """A macro's definition and the values of parameters are not the analyst's text."""
    found = told("SELECT sum(net(l_extendedprice, l_tax)) FROM lineitem")
    assert found is not None
    assert found[0] == "sum(net(l_extendedprice, l_tax))"


def test_a_column_that_is_not_there_is_named() -> None:
    assert told("SELECT o_orderstatus, avg(n) FROM orders GROUP BY o_orderstatus") == (
        "avg(n)",
        "There is no column n.",
    )


@pytest.mark.parametrize("column", ["education", "rowid"])
def test_groups_within_a_column_that_is_not_there(column: str) -> None:
    asked = f"SELECT n, count(*) FROM (SELECT hid, {column}, count(*) AS n FROM persons GROUP BY ALL) GROUP BY n"
    with pytest.raises(PolicyRefusal, match=f'Persons has no column "{column}": look at its names'):
        decided(asked)
