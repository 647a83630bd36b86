"""Deliberately leaky or wrong variants of what is computed within units. Each is a mistake that somebody could make."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from sqlglot import exp

from duckanon.catalog.names import TableName, quoted
from duckanon.releases.paid_questions import PaidQuestion
from duckanon.rewrite.normalize import decorrelation
from duckanon.units import building, grouping, joins, leaves, open_rows
from duckanon.units.building import Builder
from duckanon.units.fields import Bounds, Made
from duckanon.units.grouping import Aggregated
from duckanon.units.joins import Join
from duckanon.units.relation import UNIT, Cut, Grouped, Joined, OpenRows, Part, Records, Relation, Shown
from duckanon.units.scope import Scope
from duckanon.units.subqueries import Subqueries
from duckanon.units.windows import Windows

Patch = pytest.MonkeyPatch


def cut_under_anti(patch: Patch) -> None:
    """NOT EXISTS asks only the first of a unit's records."""
    real = Subqueries._asked

    def asked(self: Subqueries, *given: Any) -> Any:
        made, *rest = real(self, *given)
        columns = tuple(sorted(made.fields))
        return replace(made, relation=Cut(made.relation, 1, columns)), *rest

    patch.setattr(Subqueries, "_is_implied", lambda *_: False)
    patch.setattr(Subqueries, "_asked", asked)


def join_of_any_units(patch: Patch) -> None:
    """Records are joined by any columns, whosever they are."""
    patch.setattr(Join, "_is_same", lambda *_: True)
    _without_unit(patch)


def unit_added_silently(patch: Patch) -> None:
    """Records are joined by any columns, and by their units though nothing says so."""
    patch.setattr(Join, "_is_same", lambda *_: True)


def probe_of_any_units(patch: Patch) -> None:
    """A subquery asks the records of all units."""
    patch.setattr(Subqueries, "_check_units", lambda *_: None)
    patch.setattr(Subqueries, "_is_implied", lambda *_: True)


def _without_unit(patch: Patch) -> None:
    """A join does not compare the units."""
    real = Joined.sql

    def sql(self: Joined, path: Any) -> str:
        equals = r"\"j0\".\"duckanon.u\" = \"j\d+\".\"duckanon.u\""
        text = re.sub(rf"{equals} AND ", "", real(self, path))
        return re.sub(equals, "true", text)

    patch.setattr(Joined, "sql", sql)


def collation_of_open_tables(patch: Patch) -> None:
    """Text of an open table keeps its collation."""
    real = OpenRows.sql

    def sql(self: OpenRows, path: Any) -> str:
        return re.sub(
            r"system\.main\.decode\(system\.main\.encode\(CAST\((.*?) AS VARCHAR\)\)\)", r"\1", real(self, path)
        )

    patch.setattr(OpenRows, "sql", sql)


def float_sum(patch: Patch) -> None:
    """Floats are added up within a unit."""
    real = grouping._narrow

    def narrow(value: str, kind: str, bounds: Bounds | None) -> tuple[str, str]:
        return (value, kind) if kind == "DOUBLE" else real(value, kind, bounds)

    patch.setattr(grouping, "_narrow", narrow)


def any_value(patch: Patch) -> None:
    """An aggregate is any of a group's values."""
    real = grouping.aggregated

    def aggregated(call: Any, types: Any, *more: Any) -> Aggregated:
        if call.name != "any_value":
            return real(call, types, *more)
        (of,) = call.operands
        return Aggregated(f"system.main.any_value({quoted([of.name])})", types[of.name])

    patch.setattr(grouping, "aggregated", aggregated)


def fan_out_not_counted(patch: Patch) -> None:
    """A lookup is taken for one of a unique key, and rows are not cut once more."""
    patch.setattr(Scope, "is_unique", lambda *_: True)
    patch.setattr(PaidQuestion, "is_cut", property(lambda self: getattr(self, "relation", None) is None))


def rows_left_out_of_a_lookup(patch: Patch) -> None:
    """Of the rows of open tables that conditions leave, all are looked at as if they left one."""
    real = open_rows.together

    def together(scope: Scope, several: Any, conditions: Any) -> Made:
        made = real(scope, several, conditions)
        one = Joined(
            (Part(made.relation, unit=False),), ("false",), tuple(Shown(name, quoted([name])) for name in made.fields)
        )
        return replace(made, relation=one)

    patch.setattr(joins, "together", together)
    patch.setattr(PaidQuestion, "is_cut", property(lambda self: getattr(self, "relation", None) is None))


def orphans_count(patch: Patch) -> None:
    """A record is kept though there is no parent that says whose it is."""
    real = Records.sql

    def sql(self: Records, path: Any) -> str:
        return real(self, path).replace(" JOIN ", " LEFT JOIN ").rsplit(" WHERE ", 1)[0]

    patch.setattr(Records, "sql", sql)


def null_is_a_unit(patch: Patch) -> None:
    """Records without a unit are kept."""
    real = Records.sql

    def sql(self: Records, path: Any) -> str:
        return real(self, path).rsplit(" WHERE ", 1)[0]

    patch.setattr(Records, "sql", sql)


def last_unit_goes_first(patch: Patch) -> None:
    """Which rows are cut goes by a window of all units."""
    real = Cut.sql

    def sql(self: Cut, path: Any) -> str:
        return real(self, path).replace(f"PARTITION BY {quoted([UNIT])} ORDER BY", "ORDER BY")

    patch.setattr(Cut, "sql", sql)


def groups_of_all_units(patch: Patch) -> None:
    """Groups need not have the unit among their keys, and are of several units."""
    real, real_sql = Builder._grouped, Grouped.sql
    anything = (TableName("", "", ""), ("anything",))

    def grouped(self: Builder, block: Any, made: Made, *more: Any) -> Any:
        return real(self, block, replace(made, fixes={**made.fixes, anything: ()}), *more)

    def sql(self: Grouped, path: Any) -> str:
        unit = quoted([UNIT])
        text = real_sql(self, path).replace(f"SELECT {unit}", f"SELECT system.main.max({unit}) AS {unit}", 1)
        return text.replace(f" GROUP BY {unit}, ", " GROUP BY ")

    patch.setattr(Builder, "_grouped", grouped)
    patch.setattr(Grouped, "sql", sql)


def views_are_tables(patch: Patch) -> None:
    """What stands behind an open view is read as if it were open."""
    real = leaves.rows_of

    def rows_of(scope: Scope, table: Any, *more: Any, **named: Any) -> Made:
        if table.name in scope.protected or table.name in scope.catalog.tables:
            return real(scope, table, *more, **named)
        stored = scope.catalog.stored(table.name)
        assert stored is not None
        number, used = more
        return leaves._open_rows(scope, table.name, number, list(used))

    patch.setattr(leaves, "rows_of", rows_of)
    patch.setattr("duckanon.units.building.rows_of", rows_of)


def window_of_all_units(patch: Patch) -> None:
    """A window need not have the unit in its PARTITION BY."""
    real = Windows._over

    def over(self: Windows, *more: Any, **named: Any) -> str:
        unit = quoted([UNIT])
        return real(self, *more, **named).replace(f"{unit}, ", "").replace(f"PARTITION BY {unit} ", "")

    patch.setattr(Windows, "_check", lambda *_: None)
    patch.setattr(Windows, "_over", over)


def ties_in_any_order(patch: Patch) -> None:
    """Of rows that tie in a window's ORDER BY any comes first."""
    real = Windows._over

    def over(self: Windows, window: Any, *, extended: bool, frame: str = "") -> str:
        return real(self, window, extended=False, frame=frame)

    patch.setattr(Windows, "_over", over)


def ranks_without_ties(patch: Patch) -> None:
    """The order is extended under ranks too."""
    real = Windows._over

    def over(self: Windows, window: Any, *, extended: bool, frame: str = "") -> str:
        return real(self, window, extended=True, frame=frame)

    patch.setattr(Windows, "_over", over)


def numbers_in_joins(patch: Patch) -> None:
    """A row number is taken for one though its row stands several times in a join."""
    patch.setattr(Join, "_numbered", Join._of)


def any_column_is_the_unit(patch: Patch) -> None:
    """Units are counted where the different values of another column of a join are asked."""
    patch.setattr(Join, "_units", lambda _, fields: set(fields))


@dataclass(frozen=True)
class _Exact(Relation):
    """The orders of each priority, of all units and without noise. columns: the names of both columns."""

    columns: tuple[str, str]

    def sql(self, _: Any) -> str:
        prio, number = (quoted([one]) for one in self.columns)
        return f"SELECT prio AS {prio}, CAST(count(*) AS DOUBLE) AS {number} FROM x.main.orders GROUP BY prio"


def numbers_without_noise(patch: Patch) -> None:
    """Numbers of all units are computed of their records instead of being bought."""
    real = building.bought  # type: ignore[attr-defined]

    def exact(*given: Any) -> Any:
        made, names = real(*given)
        key, number = made.fields
        return replace(made, relation=_Exact((key, number))), names

    patch.setattr(building, "bought", exact)


def no_number_where_no_group_is(patch: Patch) -> None:
    """A count that depends on a row is NULL where no record has the row's key."""
    patch.setattr(decorrelation, "_of_no_rows", lambda _: exp.Null())


# The statement that shows each, whether the unit is a customer's person, and which check sees it.
TWINS: Mapping[str, tuple[Callable[[Patch], None], str, bool, str]] = {
    "a cut under ANTI": (
        cut_under_anti,
        "SELECT count(*) FROM customer c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.c = c.c AND o.day = c.since)",
        False,
        "equality",
    ),
    "`u =` left out of a join": (
        join_of_any_units,
        "SELECT count(*) FROM calls a JOIN calls b ON a.day = b.day",
        False,
        "neighbours",
    ),
    "`u =` added silently": (
        unit_added_silently,
        "SELECT count(*) FROM calls a JOIN calls b ON a.day = b.day",
        False,
        "equality",
    ),
    "`u =` left out of a probe": (
        probe_of_any_units,
        "SELECT count(*) FROM orders a WHERE EXISTS (SELECT 1 FROM orders b WHERE b.day = a.day AND b.prio = 'hi')",
        False,
        "neighbours",
    ),
    "a group of several units": (
        groups_of_all_units,
        "SELECT count(*) FROM (SELECT o.day, count(*) AS n FROM customer c JOIN orders o ON c.c = o.c GROUP BY o.day) "
        "q WHERE q.n > 1",
        False,
        "neighbours",
    ),
    "a window without u": (
        last_unit_goes_first,
        "SELECT count(*) FROM calls a JOIN calls b ON a.person = b.person WHERE a.day < b.day",
        True,
        "neighbours",
    ),
    "a collation at an open leaf": (
        collation_of_open_tables,
        "SELECT count(*) FROM (SELECT c.person, i.kind, count(*) AS n FROM customer c JOIN orders o ON o.c = c.c "
        "JOIN lineitem l ON l.o = o.o JOIN items i ON i.item = l.item GROUP BY c.person, i.kind) q WHERE q.kind = 'k'",
        True,
        "neighbours",
    ),
    "a sum of floats": (
        float_sum,
        "SELECT count(*) FROM (SELECT c.person, sum(c.score) AS s FROM customer c JOIN orders o ON o.c = c.c "
        "GROUP BY c.person) q WHERE q.s > 2",
        True,
        "neighbours",
    ),
    "a fan-out that is not counted": (
        fan_out_not_counted,
        "SELECT count(*) FROM lineitem l JOIN tags t ON t.item = l.item",
        False,
        "neighbours",
    ),
    "rows of open tables that are left out where they are asked": (
        rows_left_out_of_a_lookup,
        "SELECT count(*) FROM lineitem l JOIN tags t ON t.item = l.item WHERE t.tag <> 's'",
        False,
        "neighbours",
    ),
    "orphans that count": (
        orphans_count,
        "SELECT count(*) FROM orders o JOIN items i ON i.item = o.o",
        False,
        "neighbours",
    ),
    "units of NULL": (
        null_is_a_unit,
        "SELECT count(*) FROM customer c JOIN nations n ON n.nation = c.nation",
        True,
        "neighbours",
    ),
    "a window over all units": (
        window_of_all_units,
        "SELECT count(*) FROM (SELECT c, row_number() OVER (ORDER BY day) AS n FROM calls) q WHERE q.n > 3",
        False,
        "neighbours",
    ),
    "ties in any order": (
        ties_in_any_order,
        "SELECT count(*) FROM (SELECT c, lag(topic) OVER (PARTITION BY c ORDER BY day) AS t FROM calls) q "
        "WHERE q.t = 'bill'",
        False,
        "neighbours",
    ),
    "ranks without ties": (
        ranks_without_ties,
        "SELECT count(*) FROM (SELECT c, topic, rank() OVER (PARTITION BY c ORDER BY day) AS n FROM calls) q "
        "WHERE q.n = 1 AND q.topic <> 'x'",
        False,
        "equality",
    ),
    "row numbers in a join": (
        numbers_in_joins,
        "SELECT count(*) FROM (SELECT q.c, q.n, rank() OVER (PARTITION BY q.c ORDER BY o.day) AS r FROM (SELECT c, "
        "row_number() OVER (PARTITION BY c) AS n FROM calls) q JOIN orders o ON o.c = q.c) z WHERE z.n = 1",
        False,
        "equality",
    ),
    "a column that is not the unit": (
        any_column_is_the_unit,
        "SELECT count(DISTINCT a.day) FROM calls a JOIN customer c ON c.c = a.c",
        False,
        "equality",
    ),
    "numbers of all units without noise": (
        numbers_without_noise,
        "SELECT count(*) FROM orders a JOIN (SELECT prio AS k, count(*) AS n FROM orders GROUP BY prio) q "
        "ON q.k = a.prio WHERE q.n > 5",
        False,
        "neighbours",
    ),
    "a count of no rows that is NULL": (
        no_number_where_no_group_is,
        "SELECT count(*) FROM orders a WHERE 0 = (SELECT count(*) FROM orders b WHERE b.prio = a.prio AND b.total > 2)",
        False,
        "equality",
    ),
    "first rows in any order": (
        ties_in_any_order,
        "SELECT count(*) FROM customer c, LATERAL (SELECT topic FROM calls k WHERE k.c = c.c ORDER BY day LIMIT 1) q "
        "WHERE q.topic = 'bill'",
        False,
        "neighbours",
    ),
    "a semijoin cut by all units": (
        last_unit_goes_first,
        "SELECT count(*) FROM calls a WHERE EXISTS (SELECT 1 FROM calls b WHERE b.person = a.person AND b.day > a.day "
        "AND b.length > a.length)",
        True,
        "neighbours",
    ),
    "an aggregate that depends on order": (
        any_value,
        "SELECT count(*) FROM (SELECT person, any_value(topic) AS t FROM calls GROUP BY person) q WHERE q.t = 'bill'",
        True,
        "neighbours",
    ),
}
