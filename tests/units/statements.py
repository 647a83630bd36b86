"""Random statements of the algebra: joins, subqueries, groups within a unit, unions and lookups."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.units.world import Facts

_COMPARED = ("=", "<>", "<", "<=", ">", ">=")
# Columns of each table that are compared with constants, and these.
_CONSTANTS = {
    "customer": {
        "nation": ["'a'", "'A'", "'zz'", "''"],
        "bal": ["0", "2", "50"],
        "since": ["DATE '2024-01-02'"],
        "score": ["1.5", "0"],
        "person": ["'p'", "'Q'"],
    },
    "orders": {
        "prio": ["'hi'", "'HI'", "'lo'"],
        "total": ["0", "1", "2.51"],
        "day": ["DATE '2024-01-02'", "DATE '2024-01-03'"],
        "place": ["'a'", "'B'"],
        "c": ["3", "7"],
    },
    "lineitem": {
        "item": ["1", "2", "4"],
        "qty": ["0", "1", "3"],
        "price": ["0", "0.01", "1"],
        "flag": ["'x'", "'X'"],
        "line": ["0", "2"],
    },
    "calls": {
        "day": ["DATE '2024-01-02'"],
        "topic": ["'bill'", "'help'", "'BILL'"],
        "length": ["0", "7", "60"],
    },
    "nations": {"region": ["'north'", "'North'"], "pop": ["0", "5"], "nation": ["'a'"]},
    "items": {"kind": ["'k'", "'K'"], "weight": ["0", "3"], "item": ["1", "4"]},
    "tags": {"tag": ["'t'", "'T'"], "item": ["1", "3"]},
    "rows": {"weight": ["1"], "item": ["1", "3"]},
}
_KEYS = {
    "customer": ["nation"],
    "orders": ["prio", "place"],
    "lineitem": ["flag", "ok", "item"],
    "calls": ["topic"],
    "nations": ["region"],
    "items": ["kind"],
}
_SUMMED = {
    "customer": ["bal", "score"],
    "orders": ["total"],
    "lineitem": ["qty", "price"],
    "calls": ["length"],
    "items": ["weight"],
    "nations": ["pop"],
}
_PLAIN = {
    "customer": ["c", "nation", "bal", "since", "score"],
    "orders": ["o", "c", "prio", "total", "day", "place"],
    "lineitem": ["o", "line", "item", "qty", "price", "flag", "ok"],
    "calls": ["day", "topic", "length"],
    "nations": ["nation", "region", "pop"],
    "items": ["item", "kind", "weight"],
    "tags": ["item", "tag"],
    "rows": ["item", "weight"],
}


class Statements:
    """Makes statements. about: which column is the unit. compared: whether they are compared with DuckDB's answers, so
    that nothing in them may be clamped, rounded or noised.
    """

    def __init__(self, rng: random.Random, about: Facts, *, compared: bool = False) -> None:
        self.rng, self.about, self.compared = rng, about, compared
        self._count = 0

    def _alias(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share

    def statement(self) -> str:
        self._count = 0
        shape: Callable[[], str] = self.rng.choices(
            [self._plain, self._of_groups, self._of_union, self._with, self._of_projected, self._of_windows,
             self._of_laterals, self._of_bought, self._of_computed],
            [6, 4, 2, 1, 1, 4, 3, 2, 4],
        )[0]  # fmt: skip
        return shape()

    # --- whole statements ---------------------------------------------------------------------------------------------

    def _plain(self) -> str:
        source, tables = self._joined()
        where = self._where(tables)
        return self._outer(source, where, tables)

    def _outer(self, source: str, where: str, tables: Sequence[tuple[str, str]]) -> str:
        keys = self._keys(tables)
        shown = [*keys, *(self._aggregate(tables) for _ in range(self.rng.choice([1, 1, 2])))]
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join(shown)} FROM {source}{where}{by}"

    def _keys(self, tables: Sequence[tuple[str, str]]) -> list[str]:
        all_keys = [f"{alias}.{key}" for alias, table in tables for key in _KEYS.get(table, [])]
        return self.rng.sample(all_keys, min(len(all_keys), self.rng.choice([0, 0, 1, 1, 2])))

    def _aggregate(self, tables: Sequence[tuple[str, str]]) -> str:
        summed = [f"{alias}.{one}" for alias, table in tables for one in _SUMMED.get(table, [])]
        units = [f"{alias}.{self.about.unit}" for alias, table in tables if table in ("customer", "calls")]
        choices = ["count(*)", "count(*)", f"count(*) FILTER (WHERE {self._simple(tables)})"]
        if summed:
            one = self.rng.choice(summed)
            choices += [f"sum({one})", f"sum({one})", f"avg({one})", f"count({one})"]
            if not self.compared:
                choices += [f"median({one})", f"sum({one} * {self.rng.choice(summed)})"]
        if units:
            choices.append(f"count(DISTINCT {self.rng.choice(units)})")
        return self.rng.choice(choices)

    def _of_groups(self) -> str:
        """Over groups of a unit: how many have so many, or their totals."""
        grouped, columns = self._groups()
        alias = self._alias()
        if self._chance(0.3):
            customer = self._alias()
            if self.about.by_person or "c" not in columns:
                on = f"{customer}.person = {alias}.person" if "person" in columns else ""
            else:
                on = f"{customer}.c = {alias}.c"
            if on:
                how = self.rng.choice(["JOIN", "JOIN", "LEFT JOIN"])
                where = self._where([(customer, "customer")])
                rest = self._outer(
                    f"customer {customer} {how} ({grouped}) {alias} ON {on}", where, [(customer, "customer")]
                )
                return rest.replace("count(*)", self.rng.choice(["count(*)", f"count({alias}.n)", f"sum({alias}.n)"]))
        number = self.rng.choice([*columns.values()] or ["n"])
        test = self.rng.choice(["", f" WHERE {alias}.{number} > 1", f" WHERE {alias}.n BETWEEN 1 AND 3"])
        shown = self.rng.choice(
            ["count(*)", f"sum({alias}.n)", f"avg({alias}.n)", f"count(*) FILTER (WHERE {alias}.n > 1)"]
        )
        keys = [f"{alias}.{one}" for one in columns if one in ("prio", "nation", "flag", "topic", "place")]
        if keys and self._chance(0.6):
            return f"SELECT {keys[0]}, {shown} FROM ({grouped}) {alias}{test} GROUP BY {keys[0]}"
        return f"SELECT {shown} FROM ({grouped}) {alias}{test}"

    def _groups(self) -> tuple[str, dict[str, str]]:
        """A query of groups by the unit and maybe other columns. Its columns, with those that are numbers."""
        source, tables = self._joined()
        unit = next(
            (f"{alias}.{self.about.unit}" for alias, table in tables if table in ("customer", "calls")),
            next((f"{alias}.c" for alias, table in tables if table == "orders" and not self.about.by_person), None),
        )
        if unit is None:
            alias, table = tables[0]
            unit = f"{alias}.{self.rng.choice(_PLAIN[table])}"
        by = [unit]
        if self._chance(0.5):
            alias, table = self.rng.choice(tables)
            further = f"{alias}.{self.rng.choice(_PLAIN[table])}"
            if further.split(".")[1] != unit.split(".")[1]:
                by.append(further)
        inner = self._inner_aggregate(tables)
        having = self.rng.choice(["", "", " HAVING count(*) > 1", f" HAVING {self._inner_aggregate(tables)} > 0"])
        shown = f"{', '.join(by)}, count(*) AS n, {inner} AS v"
        grouped = f"SELECT {shown} FROM {source}{self._where(tables)} GROUP BY {', '.join(by)}{having}"
        return grouped, {"n": "n", **{one.split(".")[1]: "n" for one in by}}

    def _inner_aggregate(self, tables: Sequence[tuple[str, str]]) -> str:
        alias, table = self.rng.choice(tables)
        column = f"{alias}.{self.rng.choice(_PLAIN[table])}"
        summed = self.rng.choice(_SUMMED.get(table, ["item"]))
        # Of rows that tie DuckDB shows any.
        of_rows = (
            []
            if self.compared
            else [
                f"arg_min({column}, {alias}.{summed})",
                f"max_by({column}, {alias}.{summed})",
                f"arg_max({column}, ({alias}.{summed}, {column}))",
                f"first({column} ORDER BY {alias}.{summed} DESC)",
                f"last({column} ORDER BY {alias}.{summed} NULLS FIRST) FILTER (WHERE {self._simple(tables)})",
            ]
        )
        return self.rng.choice(
            [
                *of_rows, f"min({column})", f"max({column})", f"count(DISTINCT {column})", f"count({column})",
                f"sum({alias}.{summed})", f"avg({alias}.{summed})", f"sum({alias}.{summed} + 1)",
                f"sum({alias}.{summed} * 1.5)", f"sum({alias}.{summed}) / nullif(count({column}), 0)",
                f"count(*) FILTER (WHERE {self._simple(tables)})", f"bool_or({self._simple(tables)})",
                f"sum(CASE WHEN {self._simple(tables)} THEN 1 ELSE 0 END)", f"any_value({column})",
            ]
        )  # fmt: skip

    def _of_computed(self) -> str:
        """By what a subquery computes of its records, each value of a unit once or several times."""
        source, tables = self._joined()
        where, outer, (alias, table) = self._where(tables), self._alias(), self.rng.choice(tables)
        unit = next(
            (f"{one}.{self.about.unit}" for one, of in tables if of in ("customer", "calls")),
            f"{alias}.{self.rng.choice(_PLAIN[table])}",
        )
        day = {"orders": "day", "calls": "day", "customer": "since"}.get(table, self.rng.choice(_PLAIN[table]))
        keys = [
            f"CASE WHEN {self._simple(tables)} THEN 'x' WHEN {self._simple(tables)} THEN 'X' ELSE 'y' END",
            f"CASE WHEN {self._simple(tables)} THEN 1 ELSE 0 END",
            f"date_trunc('{self.rng.choice(['week', 'month', 'year'])}', {alias}.{day})",
            f"{alias}.{self.rng.choice(_SUMMED.get(table, ['item']))} // 2",
        ]
        key = self.rng.choice(keys)
        inner = self.rng.choice(
            [
                f"SELECT DISTINCT {unit} AS u, {key} AS k, 1 AS n FROM {source}{where}",
                f"SELECT {unit} AS u, {key} AS k, count(*) AS n FROM {source}{where} GROUP BY ALL",
                f"SELECT {unit} AS u, {self.rng.choice(['min', 'max'])}({key}) AS k, count(*) AS n "
                f"FROM {source}{where} GROUP BY ALL",
                f"SELECT {unit} AS u, {key} AS k, 1 AS n FROM {source}{where}",
            ]
        )
        shown = self.rng.choice(["count(*)", "sum(n)", "count(DISTINCT u)", "count(*) FILTER (WHERE n > 1)"])
        return f"SELECT k, {shown} FROM ({inner}) {outer}{self.rng.choice(['', ' WHERE n < 3'])} GROUP BY k"

    def _of_union(self) -> str:
        """Over what several queries have, put together."""
        kind = self.rng.choice(["UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT"])
        unit, day = self.about.unit, self.rng.choice(["day", "day"])
        members = []
        for _ in range(2):
            table = self.rng.choice(["calls", "orders", "customer"])
            one = self._alias()
            at = {"calls": day, "orders": "day", "customer": "since"}[table]
            if self.about.by_person and table == "orders":
                other = self._alias()
                source = f"orders {one} JOIN customer {other} ON {one}.c = {other}.c"
                members.append(f"SELECT {other}.person AS u, {one}.day AS d FROM {source}{self._where([(one, table)])}")
            else:
                members.append(
                    f"SELECT {one}.{unit} AS u, {one}.{at} AS d FROM {table} {one}{self._where([(one, table)])}"
                )
        alias = self._alias()
        return self.rng.choice(
            [
                f"SELECT count(*) FROM ({f' {kind} '.join(members)}) {alias} WHERE {alias}.d > DATE '2024-01-01'",
                f"SELECT count(*) FROM (SELECT u, count(*) AS n, min(d) AS first FROM ({f' {kind} '.join(members)}) "
                f"{alias} GROUP BY u) g WHERE n > 1",
                f"SELECT count(*) FROM customer c0 JOIN ({f' {kind} '.join(members)}) {alias} ON c0.{unit} = {alias}.u",
            ]
        )

    def _with(self) -> str:
        """With a name for the groups that are asked."""
        grouped, columns = self._groups()
        first = next(iter(one for one in columns if one != "n"))
        return (
            f"WITH g AS ({grouped}) SELECT count(*), sum(a.n) FROM g a "
            f"{self.rng.choice(['', f'JOIN g b ON a.{first} = b.{first}'])} WHERE a.n > {self.rng.randrange(3)}"
        )

    def _of_projected(self) -> str:
        """Over a subquery in FROM that shows columns of joined records."""
        source, tables = self._joined()
        alias, table = self.rng.choice(tables)
        summed = self.rng.choice(_SUMMED.get(table, ["item"]))
        inner = f"SELECT {alias}.{summed} AS v, {alias}.{self.rng.choice(_PLAIN[table])} AS w FROM {source}"
        distinct = self.rng.choice(["", "", "DISTINCT "])
        return (
            f"SELECT count(*), sum(v) FROM ({inner.replace('SELECT ', f'SELECT {distinct}', 1)}{self._where(tables)}) q"
        )

    # --- LATERAL, and numbers of all units --------------------------------------------------------------------------

    def _of_laterals(self) -> str:
        """Over records with some rows of the same unit, or with what is computed of these."""
        outer, inner, mine, theirs = self.rng.choice(
            [
                ("customer", "orders", "c", "c"), ("orders", "lineitem", "o", "o"),
                ("customer", "calls", self.about.unit, self.about.unit), ("lineitem", "items", "item", "item"),
                ("lineitem", "tags", "item", "item"), ("orders", "orders", "c", "c"),
            ]
        )  # fmt: skip
        a, b, alias = self._alias(), self._alias(), self._alias()
        link = f"{b}.{theirs} = {a}.{mine}" if self._chance(0.97) else "true"
        if self._chance(0.3):
            link += f" AND {self._simple([(b, inner)])}"
        value = f"{b}.{self.rng.choice(_SUMMED.get(inner, ['item']))}"
        where = f"FROM {inner} {b} WHERE {link}"
        roll = self.rng.random()
        if roll < 0.6:
            shown = f"SELECT {value} AS v, {b}.{theirs} AS n"
            sub = f"{shown} {where} {self._order([(b, inner)])} LIMIT {self.rng.choice([1, 1, 2, 0])}"
        elif roll < 0.8:
            sub = f"SELECT count(*) AS n, {self.rng.choice(['max', 'sum', 'avg', 'count'])}({value}) AS v {where}"
        else:
            key = f"{b}.{self.rng.choice(_PLAIN[inner])}"
            sub = f"SELECT {key} AS k, count(*) AS n, max({value}) AS v {where} GROUP BY {key}"
            sub += self.rng.choice(["", " ORDER BY n DESC, k LIMIT 1"])
        joined = self.rng.choice([f"{outer} {a}, LATERAL ({sub}) {alias}", f"{outer} {a}, ({sub}) {alias}",
                                  f"{outer} {a} LEFT JOIN LATERAL ({sub}) {alias} ON true"])  # fmt: skip
        shown = self.rng.choice(["count(*)", f"count({alias}.v)", f"sum({alias}.v)", f"count({alias}.n)"])
        return f"SELECT {shown} FROM {joined}{self._where([(a, outer)])}"

    def _of_bought(self) -> str:
        """Over records that are joined with numbers of all units by a key."""
        table, key = self.rng.choice([("orders", "prio"), ("lineitem", "flag"), ("calls", "topic")])
        a, b, alias = self._alias(), self._alias(), self._alias()
        number = "count(*)" if self.compared else self._aggregate([(b, table)])
        grouped = f"SELECT {b}.{key} AS k, {number} AS n FROM {table} {b}{self._where([(b, table)])} GROUP BY {b}.{key}"
        rest = self.rng.choice(["", "", " HAVING count(*) > 1", " ORDER BY n DESC, k LIMIT 2"])
        if self.compared:
            # There are rows for keys that no record has, too.
            rest = f" HAVING count(*) > {self.rng.choice([0, 1, 2])}"
        if self._chance(0.3):
            return f"SELECT count(*) FROM {table} {a} WHERE {a}.{key} IN (SELECT k FROM ({grouped}{rest}) {alias})"
        shown = self.rng.choice(["count(*)", f"{alias}.k, count(*)"])
        by = f" GROUP BY {alias}.k" if "k," in shown else ""
        test = self.rng.choice(["", f" WHERE {alias}.n > 2"])
        return f"SELECT {shown} FROM {table} {a} JOIN ({grouped}{rest}) {alias} ON {alias}.k = {a}.{key}{test}{by}"

    def _by_key(self, own: str, table: str) -> str:
        """A comparison with a number of all units by a public key, or with what an open table has."""
        new = self._alias()
        if table == "lineitem" and self._chance(0.3):
            return f"{own}.qty > (SELECT {new}.weight FROM items {new} WHERE {new}.item = {own}.item)"
        key = self.rng.choice(_KEYS[table])
        numbers = [f"avg({new}.{one})" for one in _SUMMED[table]] + ["count(*) FILTER (WHERE true)"]
        value = self.rng.choice(["count(*)", "count(*) + 1", *([] if self.compared else numbers)])
        left = self.rng.choice(["1", "2", *([] if self.compared else [f"{own}.{one}" for one in _SUMMED[table]])])
        where = f"{new}.{key} = {own}.{key}" + (f" AND {self._simple([(new, table)])}" if self._chance(0.3) else "")
        return f"{left} {self.rng.choice(_COMPARED)} (SELECT {value} FROM {table} {new} WHERE {where})"

    # --- windows ------------------------------------------------------------------------------------------------------

    def _of_windows(self) -> str:
        """Over rows with windows: numbers, ranks, values of other rows, and running totals."""
        source, tables = self._joined() if self._chance(0.3) else ("", [])
        if not source:
            alias, table = self._alias(), self.rng.choice(["orders", "orders", "calls", "lineitem", "customer"])
            source, tables = f"{table} {alias}", [(alias, table)]
        alias, table = tables[0]
        unit = next(
            (f"{one}.{self.about.unit}" for one, of in tables if of in ("customer", "calls")),
            f"{alias}.{self.rng.choice(['c'] if table == 'orders' else _PLAIN[table])}",
        )
        by = [unit] if self._chance(0.95) else []
        if self._chance(0.3):
            by.append(f"{alias}.{self.rng.choice(_PLAIN[table])}")
        order = self._order(tables)
        over = f"({f'PARTITION BY {chr(44).join(by)} ' if by else ''}{order}"
        keys = [one for one in _KEYS.get(table, []) if one != unit.split(".")[1]]
        shown = [f"{alias}.{one} AS k" for one in keys[:1]]
        value = self._window_value(tables, over)
        number = f"row_number() OVER {over})"
        test = self.rng.choice(
            [f"{number} = 1", f"{number} <= 2", f"{number} = 2", f"1 = {number}", f"rank() OVER {over}) = 1"]
        )
        where, outer = self._where(tables), self._alias()
        roll = self.rng.random()
        if roll < 0.4:
            inner = f"SELECT {', '.join([f'{value} AS v', *shown])} FROM {source}{where} QUALIFY {test}"
            rest = ""
        elif roll < 0.5:
            order_by = f" ORDER BY {', '.join([*by, order.removeprefix('ORDER BY ')])}" if order else ""
            plain = f"{alias}.{self.rng.choice(_PLAIN[table])}"
            on = ", ".join(by or [unit])
            inner = f"SELECT DISTINCT ON ({on}) {', '.join([f'{plain} AS v', *shown])} FROM {source}{where}{order_by}"
            rest = ""
        else:
            inner = f"SELECT {', '.join([f'{value} AS v', f'{number} AS n', *shown])} FROM {source}{where}"
            rest = self.rng.choice(["", f" WHERE {outer}.n = 1", f" WHERE {outer}.n <= 2", f" WHERE {outer}.n > 1"])
        how = self.rng.choice(["count(*)", "count(*)", f"count({outer}.v)", f"sum({outer}.v)"])
        if shown and self._chance(0.5):
            return f"SELECT {outer}.k, {how} FROM ({inner}) {outer}{rest} GROUP BY {outer}.k"
        return f"SELECT {how} FROM ({inner}) {outer}{rest}"

    def _order(self, tables: Sequence[tuple[str, str]]) -> str:
        """ORDER BY of a window; total, where answers are compared with DuckDB's, for tables with a key."""
        terms = []
        for alias, table in tables[: self.rng.choice([1, 1, 2])]:
            columns = self.rng.sample(_PLAIN[table], self.rng.choice([0, 1, 1, 2]))
            terms += [f"{alias}.{one}" for one in columns]
        if self.compared:
            terms += [f"{alias}.{one}" for alias, table in tables for one in _PLAIN.get(table, [])]
        ways = ["", "", " DESC", " NULLS FIRST", " DESC NULLS LAST", " DESC NULLS FIRST"]
        return f"ORDER BY {', '.join(one + self.rng.choice(ways) for one in terms)}" if terms else ""

    def _window_value(self, tables: Sequence[tuple[str, str]], over: str) -> str:
        alias, table = self.rng.choice(tables)
        column = f"{alias}.{self.rng.choice(_PLAIN[table])}"
        summed = f"{alias}.{self.rng.choice(_SUMMED.get(table, ['item']))}"
        rows = self.rng.choice(
            [
                "", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
                " ROWS UNBOUNDED PRECEDING", " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
                " ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING", " ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
                *([" GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW"] if "ORDER BY" in over else []),
            ]
        )  # fmt: skip
        nulls = self.rng.choice(["", "", " IGNORE NULLS"])
        return self.rng.choice(
            [
                f"row_number() OVER {over})", f"rank() OVER {over})", f"dense_rank() OVER {over})",
                f"ntile(2) OVER {over})", f"percent_rank() OVER {over})", f"cume_dist() OVER {over})",
                f"lag({column}{nulls}) OVER {over})", f"lead({column}, 2{nulls}) OVER {over})",
                f"lag({summed}, 1, 0) OVER {over})", f"{summed} - lag({summed}) OVER {over})",
                f"first_value({column}{nulls}) OVER {over}{rows})", f"last_value({column}{nulls}) OVER {over}{rows})",
                f"nth_value({column}, 2{nulls}) OVER {over}{rows})", f"count(*) OVER {over}{rows})",
                f"sum({summed}) OVER {over}{rows})", f"avg({summed}) OVER {over}{rows})",
                f"min({column}) OVER {over}{rows})", f"max({column}) OVER {over}{rows})",
                f"count({column}) FILTER (WHERE {self._simple(tables)}) OVER {over}{rows})",
            ]
        )  # fmt: skip

    # --- what is read -------------------------------------------------------------------------------------------------

    def _joined(self) -> tuple[str, list[tuple[str, str]]]:
        """What stands after FROM, and its tables by their aliases."""
        first = self.rng.choice(["customer", "orders", "orders", "lineitem", "calls"])
        alias = self._alias()
        source, tables = f"{first} {alias}", [(alias, first)]
        for _ in range(self.rng.choice([0, 1, 1, 2, 2, 3])):
            part = self._further(tables)
            if part is not None:
                text, alias, table = part
                source += text
                if table:
                    tables.append((alias, table))
        return source, tables

    def _further(self, tables: Sequence[tuple[str, str]]) -> tuple[str, str, str] | None:
        """A join with one more table, by a link, the unit, or a lookup."""
        own, table = self.rng.choice(tables)
        unit, new = self.about.unit, self._alias()
        ways: list[tuple[str, str]] = []
        if table == "customer":
            ways = [
                ("orders", f"{new}.c = {own}.c"),
                ("calls", f"{new}.{unit} = {own}.{unit}"),
                ("customer", f"{new}.{unit} = {own}.{unit}"),
                ("nations", f"{new}.nation = {own}.nation"),
            ]
        elif table == "orders":
            ways = [
                ("customer", f"{new}.c = {own}.c"),
                ("lineitem", f"{new}.o = {own}.o"),
                ("orders", f"{new}.c = {own}.c"),
                ("orders", f"{new}.o = {own}.o"),
                ("nations", f"{new}.nation = {own}.place"),
            ]
        elif table == "lineitem":
            ways = [
                ("orders", f"{new}.o = {own}.o"),
                ("items", f"{new}.item = {own}.item"),
                ("lineitem", f"{new}.o = {own}.o"),
                ("lineitem", f"{new}.o = {own}.o AND {new}.line = {own}.line"),
                ("tags", f"{new}.item = {own}.item"),
                ("tags", f"{new}.item = {own}.item AND {new}.tag = {self.rng.choice(_CONSTANTS['tags']['tag'])}"),
                ("rows", f"{new}.item = {own}.item"),
            ]
        elif table == "calls":
            ways = [("customer", f"{new}.{unit} = {own}.{unit}"), ("calls", f"{new}.{unit} = {own}.{unit}")]
        if not ways:
            return None
        other, on = self.rng.choice(ways)
        if self._chance(0.25):
            on += f" AND {self._simple([(new, other)])}"
        if self._chance(0.1):
            on += f" AND {self._between([(new, other)], [(own, table)])}"
        if self._chance(0.05):
            # Nothing then says that the records are of one unit.
            on = self._between([(new, other)], [(own, table)])
        how = self.rng.choice(["JOIN", "JOIN", "JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN", "RIGHT JOIN"])
        read = self._rows() if other == "rows" else other
        if how in ("SEMI JOIN", "ANTI JOIN"):
            return f" {how} {read} {new} ON {on}", new, ""
        return f" {how} {read} {new} ON {on}", new, other

    def _rows(self) -> str:
        """Rows without a table."""
        rows = [
            f"SELECT {at} AS item, {self.rng.choice(['1', '2', 'NULL'])} AS weight"
            for at in self.rng.choices([1, 2, 3, 4], k=2)
        ]
        return f"({' UNION ALL '.join(rows)})"

    # --- conditions ---------------------------------------------------------------------------------------------------

    def _where(self, tables: Sequence[tuple[str, str]]) -> str:
        count = self.rng.choice([0, 0, 1, 1, 2])
        return f" WHERE {' AND '.join(self._condition(tables) for _ in range(count))}" if count else ""

    def _condition(self, tables: Sequence[tuple[str, str]]) -> str:
        roll = self.rng.random()
        if roll < 0.3:
            return self._simple(tables)
        if roll < 0.35:
            return self._of_times(tables)
        if roll < 0.42:
            return f"({self._simple(tables)} OR {self._condition(tables)})"
        if roll < 0.47:
            return f"NOT ({self._condition(tables)})"
        return self._asked(tables)

    def _of_times(self, tables: Sequence[tuple[str, str]]) -> str:
        """A comparison of the time between two dates."""
        columns = {"orders": "day", "customer": "since", "calls": "day"}
        dates = [f"{alias}.{columns[table]}" for alias, table in tables if table in columns]
        if not dates:
            return self._simple(tables)
        one, other = self.rng.choice(dates), self.rng.choice([*dates, "DATE '2024-01-02'"])
        compared, unit = self.rng.choice(_COMPARED), self.rng.choice(["day", "week", "month", "year", "hour"])
        return self.rng.choice(
            [
                f"{one} - {other} {compared} 1", f"date_diff('{unit}', {other}, {one}) {compared} 1",
                f"date_sub('{unit}', {other}, {one}) {compared} 1", f"{one} {compared} {other} + INTERVAL 1 {unit}",
                f"{one} - INTERVAL 1 {unit} {compared} {other}", f"age({one}, {other}) {compared} INTERVAL 1 DAY",
                f"extract(month FROM age({one}, {other})) {compared} 0", f"{one} + 1 {compared} {other}",
                f"{one} BETWEEN {other} AND {other} + INTERVAL 2 {unit}",
            ]
        )  # fmt: skip

    def _simple(self, tables: Sequence[tuple[str, str]]) -> str:
        alias, table = self.rng.choice(tables)
        if table == "lineitem" and self._chance(0.1):
            return f"{alias}.ok"
        column, constants = self.rng.choice([*_CONSTANTS[table].items()])
        name = f"{alias}.{column}"
        roll = self.rng.random()
        if roll < 0.7:
            return f"{name} {self.rng.choice(_COMPARED)} {self.rng.choice(constants)}"
        if roll < 0.8:
            return f"{name} IS {self.rng.choice(['', 'NOT '])}NULL"
        if roll < 0.9:
            return f"{name} {self.rng.choice(['', 'NOT '])}IN ({', '.join(constants)})"
        return f"coalesce({name}, {constants[0]}) {self.rng.choice(_COMPARED)} {constants[-1]}"

    def _between(self, mine: Sequence[tuple[str, str]], theirs: Sequence[tuple[str, str]]) -> str:
        """A comparison of columns of equal types."""
        alike = [
            (f"{a}.{one}", f"{b}.{other}")
            for a, of in mine
            for b, of_other in theirs
            for one in _PLAIN.get(of, [])
            for other in _PLAIN.get(of_other, [])
            if _kind(one) == _kind(other)
        ]
        if not alike:
            return "true"
        one, other = self.rng.choice(alike)
        return f"{one} {self.rng.choice(['=', *_COMPARED])} {other}"

    def _asked(self, tables: Sequence[tuple[str, str]]) -> str:
        """A condition with a subquery."""
        own, table = self.rng.choice(tables)
        links = {
            "customer": [("orders", "c", "c"), ("calls", self.about.unit, self.about.unit)],
            "orders": [("lineitem", "o", "o"), ("customer", "c", "c"), ("orders", "c", "c"), ("orders", "o", "o")],
            "lineitem": [("orders", "o", "o"), ("lineitem", "o", "o"), ("items", "item", "item"), ("tags", "item", "item")],  # noqa: E501
            "calls": [("customer", self.about.unit, self.about.unit), ("calls", self.about.unit, self.about.unit)],
            "nations": [("customer", "nation", "nation")],
            "items": [("tags", "item", "item"), ("lineitem", "item", "item")],
            "tags": [("items", "item", "item")],
            "rows": [("items", "item", "item"), ("lineitem", "item", "item")],
        }[table]  # fmt: skip
        other, theirs, mine = self.rng.choice(links)
        new = self._alias()
        inside = self._inside(new, other, theirs, own, table, mine)
        source = f"{other} {new}"
        if self._chance(0.2):
            part = self._further([(new, other)])
            if part is not None:
                source += part[0]
        where = " AND ".join(inside)
        summed = f"{new}.{self.rng.choice(_SUMMED.get(other, ['item']))}"
        rest = inside[1:]
        and_rest = f" WHERE {' AND '.join(rest)}" if rest else ""
        roll = self.rng.random()
        if roll < 0.25:
            return f"{self.rng.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {source} WHERE {where})"
        if roll < 0.45:
            negated = self.rng.choice(["", "", "NOT "])
            alike = [one for one in _PLAIN[other] if one in _PLAIN[table] and one != theirs]
            if alike and self._chance(0.4):
                # With columns that may be NULL.
                column = self.rng.choice(alike)
                return f"{own}.{column} {negated}IN (SELECT {new}.{column} FROM {source} WHERE {where})"
            return f"{own}.{mine} {negated}IN (SELECT {new}.{theirs} FROM {source}{and_rest})"
        if roll < 0.75:
            value = self.rng.choice(
                ["count(*)", "count(*) + 1", f"sum({summed})", f"min({summed})", f"max({summed})", f"avg({summed})",
                 f"coalesce(sum({summed}), 0)", f"count(DISTINCT {summed})"]
            )  # fmt: skip
            of_mine = [f"{own}.{one}" for one in _SUMMED.get(table, [])]
            left = self.rng.choice(["1", "2", *of_mine])
            return f"{left} {self.rng.choice(_COMPARED)} (SELECT {value} FROM {source} WHERE {where})"
        if roll < 0.8 and table in _KEYS and table in ("customer", "orders", "lineitem", "calls"):
            return self._by_key(own, table)
        if roll < 0.87:
            grouped = f"SELECT {new}.{theirs} FROM {source}{and_rest} GROUP BY {new}.{theirs} HAVING count(*) > 1"
            return f"{own}.{mine} {self.rng.choice(['', '', 'NOT '])}IN ({grouped})"
        return self._of_all(own, table)

    def _inside(self, new: str, other: str, theirs: str, own: str, table: str, mine: str) -> list[str]:
        """The conditions of a subquery about a table in a query of another; the first links them, mostly."""
        inside = [f"{new}.{theirs} = {own}.{mine}"]
        if self._chance(0.4):
            inside.append(self._simple([(new, other)]))
        if self._chance(0.3):
            inside += [self._between([(new, other)], [(own, table)]) for _ in range(self.rng.choice([1, 1, 2]))]
        if self._chance(0.1):
            inside.append(self._of_times([(new, other), (own, table)]))
        if self._chance(0.05):
            # The unit is not compared.
            inside = inside[1:] or ["true"]
        return inside

    def _of_all(self, own: str, table: str) -> str:
        """A comparison with one value of all units, or of open tables."""
        if self._chance(0.4) or self.compared:
            column, value = self.rng.choice(
                [("item", "(SELECT max(item) FROM items)"), ("item", "(SELECT min(weight) FROM items)")]
            )
            if table in ("lineitem", "items", "tags"):
                return f"{own}.{column} {self.rng.choice(_COMPARED)} {value}"
        numbers = _SUMMED.get(table, [])
        if self.compared or not numbers:
            return "true"
        of = self.rng.choice(["customer", "orders", "lineitem", "calls"])
        new = self._alias()
        value = self.rng.choice([f"avg({new}.{self.rng.choice(_SUMMED[of])})", "count(*)"])
        return f"{own}.{self.rng.choice(numbers)} > (SELECT {value} FROM {of} {new}{self._where([(new, of)])})"


_KINDS = {
    "c": "n", "o": "n", "line": "n", "item": "n", "bal": "n", "qty": "n", "length": "n", "pop": "n", "weight": "n",
    "nation": "t", "prio": "t", "place": "t", "flag": "t", "topic": "t", "region": "t", "kind": "t", "tag": "t",
    "since": "d", "day": "d", "total": "e", "price": "e", "score": "f", "ok": "b",
}  # fmt: skip


def _kind(column: str) -> str:
    return _KINDS[column]
