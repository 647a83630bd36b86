"""suppress: from a call to the query that sums the records to tables with totals, and the engine's call inside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Self

from duckanon.catalog.names import fold, identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions import crossed as dimensions
from duckanon.functions.arguments import options_of_numbers
from duckanon.functions.arrow import row_type
from duckanon.functions.crossed import Crossed
from duckanon.functions.request import Request
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import (
    absent,
    call,
    check,
    described,
    fill,
    literals,
    no_unit,
    query_table,
    struct,
    unit_of,
)
from duckanon.functions.suppressed_tables import weighted
from duckanon.functions.udf import Host, Instance, register_check, register_engine

_RELEASED = ("row_level", "col_level", "by_level", "value", "suppressed")
_AUDITED = ("status", "true_value", "lower", "upper")
_FOUND = {"status": "VARCHAR[]", "lower": "DOUBLE[]", "upper": "DOUBLE[]", "places": "BIGINT[][]"}
_CODES = {"below": "VARCHAR[]", "node": "BIGINT[]", "level": "BIGINT[]", "label": "VARCHAR[]"}
# The arguments of each rule with their defaults.
_RULES: Mapping[str, Mapping[str, int]] = {
    "threshold": {"n": 3},
    "p%": {"p": 10, "q": 100},
    "dominance": {"contributors": 1, "percent": 75},
}
# What may be decided about a cell beforehand, beside its columns and levels.
_DECIDED = ("row_level", "col_level", "by_level", "suppressed", "cost")


def register(on: Instance, host: Host) -> None:
    """Put the functions behind suppress on a database instance."""
    from duckanon.functions.suppress_engine import answer, codes_above

    on.function(Suppress)
    register_check(on, "suppress", _check, Suppress)
    register_engine(on, "_dk_suppress_codes", codes_above, "found", row_type(_CODES), Suppress)
    register_engine(on, "_dk_suppress", partial(answer, host.progress), "found", row_type(_FOUND), Suppress)


@dataclass(frozen=True, kw_only=True)
class Suppress(Request):
    """A call of suppress. n, p, q, contributors, percent: as given or by default; None where no rule takes them.

    crossed: its dimensions. shown: the number of the dimension and of the hierarchy in it of rows, cols and each of by.
    tables: the columns of each table, or nothing for one with everything. widths, sliding: intervals by rule, in
    percent.
    """

    function = "suppress"
    tbl: str
    crossed: tuple[Crossed, ...]
    shown: tuple[tuple[int, ...], ...]
    tables: tuple[tuple[str, ...], ...]
    value: str | None
    count: str | None
    weight: str | None
    digits: int
    unit: str | None
    rule: tuple[str, ...]
    n: int | None
    p: float | None
    q: float | None
    contributors: int | None
    percent: float | None
    widths: dict[str, float]
    sliding: dict[str, float]
    apriori: str | None
    audit: bool

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        checked = cls.checked(arguments)
        by = dimensions.read_lists(checked["by"], "by")
        lists = [checked["rows"], checked["cols"], *by]
        crossed = dimensions.read(lists, dimensions.read_codes(checked.pop("hierarchies")))
        tables = dimensions.read_lists(checked["tables"], "tables")
        dimensions.check_tables(tables, crossed)
        checked["rule"] = _rules(checked["rule"])
        _check_roles(checked, by)
        _check_measure(checked)
        widths = _widths(checked["widths"], checked["rule"], "widths", 100)
        sliding = _widths(checked["sliding"], checked["rule"], "sliding", 200)
        shown = tuple(_shown(crossed, columns) for columns in lists)
        own = {"crossed": crossed, "shown": shown, "tables": tables, "widths": widths, "sliding": sliding}
        for name in ("rows", "cols", "by"):
            checked.pop(name)
        return cls(**(checked | _parameters(checked) | own))

    def query(self) -> str:
        audited = f', status, {self._sum} AS true_value, _dk_found."lower", _dk_found."upper"'
        nodes = [f"node_{dimension.place}" for dimension in self.crossed]
        return fill(
            "suppress",
            table=literal(self.tbl),
            absent=absent(self.named),
            problem=check(
                "suppress",
                self.literal,
                released=literals(_RELEASED + _AUDITED),
                apriori=described(self.apriori),
                codes=f"[{', '.join(described(dimension.codes) for dimension in self.crossed)}]",
            ),
            keys=", ".join(column for crossed in self.crossed for column in crossed.named),
            amount=self._amount,
            contributors=self._contributors,
            unit=f"CAST({unit_of(self.unit)} & {2**63 - 1} AS BIGINT)" if self.unit else "NULL",
            exact=self._exact,
            flaws=self._flaws,
            dimensions=",\n".join(crossed.defined(self.literal, self.tables or [None]) for crossed in self.crossed),
            leaves=", ".join(
                f"_dk_leaves_{dimension.place}.leaf AS leaf_{dimension.place}" for dimension in self.crossed
            ),
            leaved=" ".join(
                f"JOIN _dk_leaves_{dimension.place} ON {dimension.same_leaf}" for dimension in self.crossed
            ),
            measures=self._measures,
            cells=self._cells,
            apriori=self._apriori,
            answer=self._answer,
            places=", ".join(nodes),
            placed=", ".join(f"unnest(answer.found.places[{i}]) AS {name}" for i, name in enumerate(nodes, 1)),
            joined="\n".join(
                f"JOIN _dk_nodes_{dimension.place} ON _dk_nodes_{dimension.place}.node = _dk_found.{name}"
                for dimension, name in zip(self.crossed, nodes, strict=True)
            ),
            released=self._released,
            levels=self._levels,
            sum=self._sum,
            audited=audited if self.audit else "",
        )

    @property
    def categories(self) -> list[str]:
        """The columns of all dimensions, in the order of the answer."""
        return [name for crossed in self.crossed for name in crossed.columns]

    @property
    def named(self) -> list[str]:
        """All columns that the call names."""
        return [*self.categories, *(column for column in (self.value, self.count, self.weight, self.unit) if column)]

    @property
    def largest(self) -> int:
        """How many of the largest contributions the rules look at."""
        return max(2 if self.p is not None else 0, self.contributors or 0)

    @property
    def counted(self) -> bool:
        """Whether the value of a cell is the number of its contributors."""
        return self.value is None and self.unit is None and self.weight is None

    @property
    def counts_records(self) -> bool:
        """Whether the value of a cell is the number of its contributors' records."""
        return self.value is None and self.unit is not None and self.weight is None

    @property
    def _answer(self) -> str:
        """The engine's call: all cells, what is above each leaf, and what is decided beforehand."""
        cell = {"places": f"[{', '.join(f'node_{crossed.place}' for crossed in self.crossed)}]"}
        cell |= {name: name for name in ("amount", "contributors", "largest", "owner")}
        flags = ", ".join(f"t{i}" for i in range(len(self.tables) or 1))
        above = [
            f"(SELECT {{'chains': system.main.list({{'leaf': leaf, 'node': node, 'list': list, 'level': level}}), "
            f"'tables': (SELECT system.main.list({{'node': node, 'has': [{flags}]}}) FROM _dk_above_{crossed.place})}} "
            f"FROM _dk_up_{crossed.place})"
            for crossed in self.crossed
        ]
        decided = (
            "(SELECT system.main.list({'places': places, 'suppressed': suppressed, 'cost': cost}) FROM _dk_apriori)"
        )
        return call(
            "_dk_suppress",
            request=self.literal,
            cells=f"system.main.list({struct(cell)})",
            dimensions=f"[{', '.join(above)}]",
            apriori=decided if self.apriori else "NULL",
        )

    @property
    def _released(self) -> str:
        """The columns of all dimensions, under the caller's names."""
        return ", ".join(
            f"_dk_nodes_{crossed.place}.{crossed.key(name)} AS {identifier(name)}"
            for crossed in self.crossed
            for name in crossed.columns
        )

    @property
    def _levels(self) -> str:
        """How many columns of rows, of cols and of each list in by identify a cell."""
        rows, cols, *by = (
            self.crossed[numbers[0]].level(numbers[1]) if numbers else "0::BIGINT" for numbers in self.shown
        )
        return f"{rows} AS row_level, {cols} AS col_level" + (f", [{', '.join(by)}] AS by_level" if by else "")

    @property
    def _amount(self) -> str:
        """What a record adds to its cell."""
        kind = f"DECIMAL(28, {self.digits})"
        if self.weight is not None:
            return weighted(self.weight, self.value, self.digits)
        if self.value is not None:
            # Sums of so many digits still fit 38 after ten billion records.
            return f"TRY_CAST({identifier(self.value)} AS {kind})"
        return "1" if self.count is None else f"TRY_CAST({identifier(self.count)} AS {kind})"

    @property
    def _contributors(self) -> str:
        """For how many contributors a record stands."""
        return "1" if self.count is None else f"TRY_CAST({identifier(self.count)} AS BIGINT)"

    @property
    def _exact(self) -> str:
        """Whether a record's numbers have no more decimals than the table."""
        tests = []
        for name, digits in ((self.value if self.weight is None else None, self.digits), (self.count, 0)):
            if name is None:
                continue
            column, kept = identifier(name), f"TRY_CAST({identifier(name)} AS DECIMAL(28, {digits}))"
            # Doubles are compared as doubles: as decimals they would change their last digits.
            tests.append(
                f"CASE WHEN system.main.typeof({column}) IN ('DOUBLE', 'FLOAT') "
                f"THEN TRY_CAST({column} AS DOUBLE) = TRY_CAST({kept} AS DOUBLE) "
                f"ELSE TRY_CAST({column} AS DECIMAL(38, 18)) = {kept} END"
            )
        return " AND ".join(tests) or "true"

    @property
    def _sum(self) -> str:
        """A cell's sum, in a type that holds the largest possible."""
        kind = f"DECIMAL(18, {self.digits})" if self.digits else "BIGINT"
        return f"CAST(coalesce(_dk_sums.amount, 0) AS {kind})"

    @property
    def _flaws(self) -> str:
        """What may be wrong with the records, as an aggregate: a sentence, or NULL."""
        column = next((name for name in (self.weight, self.value, self.count) if name), None)
        subject = f'Column "{column}" holds '
        more = (
            f"numbers with more than {self.digits} decimals: round them, or choose larger digits."
            if self.digits
            else "numbers that are not whole: say how many decimals they have, as in digits := 2."
        )
        flaws = [
            (
                "amount IS NULL OR contributors IS NULL",
                f"{subject}NULL, infinity or too large a number: replace it, or leave those rows out.",
            ),
            ("amount < 0 OR contributors < 0", f"{subject}a negative number: contributions must be at least 0."),
            ("exact IS NOT true", subject + more),
        ]
        if column is None:
            flaws = []
        if self.value and self.count:
            flaws.append(
                (
                    "contributors = 0 AND amount > 0",
                    f'Column "{self.count}" holds 0 where "{self.value}" does not: somebody must have contributed it.',
                )
            )
        if self.unit is not None:
            flaws.append(("unit IS NULL", no_unit(self.unit)))
        none = literal("The table has no rows: there is nothing to publish.")
        cases = " ".join(f"WHEN {test} THEN {literal(sentence)}" for test, sentence in flaws)
        flaw = f"system.main.max(CASE {cases} END)" if cases else "NULL"
        return f"CASE WHEN system.main.count(*) = 0 THEN {none} ELSE {flaw} END"

    @property
    def _measures(self) -> str:
        """A cell's sum, contributors and largest contributions, from records. Units are counted later."""
        contributors = "system.main.sum(contributors) FILTER (WHERE amount > 0)"
        top = f"system.main.max(amount, {self.largest})" if self.largest and self.unit is None else "NULL"
        return f"system.main.sum(amount) AS amount, coalesce({contributors}, 0) AS contributors, {top} AS largest"

    @property
    def _cells(self) -> str:
        """The cells of all tables, from those of the leaves."""
        nodes = ", ".join(f"_dk_above_{dimension.place}.node AS node_{dimension.place}" for dimension in self.crossed)
        joins = " ".join(
            f"JOIN _dk_above_{dimension.place} ON _dk_above_{dimension.place}.leaf = leaf_{dimension.place}"
            for dimension in self.crossed
        )
        within = " OR ".join(
            "(" + " AND ".join(f"_dk_above_{dimension.place}.t{i}" for dimension in self.crossed) + ")"
            for i in range(len(self.tables) or 1)
        )
        of = f"FROM _dk_parts {joins} WHERE {within} GROUP BY ALL"
        if self.unit is None:
            merged = "system.main.list_reverse_sort(system.main.flatten(system.main.list(largest)))"
            top = f"{merged}[1:{self.largest}]" if self.largest else "NULL"
            contributors = "CAST(system.main.sum(contributors) AS BIGINT) AS contributors"
            measures = f"system.main.sum(amount) AS amount, {contributors}, {top} AS largest"
            return f"SELECT {nodes}, {measures}, 0::BIGINT AS owner {of}"
        top = f"system.main.max(amount, {self.largest})" if self.largest else "NULL"
        places = ", ".join(f"node_{dimension.place}" for dimension in self.crossed)
        contributors = "system.main.count(*) FILTER (WHERE amount > 0)"
        # A unit is 0 or more, as the hash of the number 0 is: what comes of it here is not 0, which stands for nobody.
        owner = "coalesce(-1 - system.main.any_value(unit) FILTER (WHERE amount > 0), 0)"
        measures = f"system.main.sum(amount) AS amount, {contributors} AS contributors, {top} AS largest"
        measures += f", {owner} AS owner"
        return (
            f"SELECT {places}, {measures} FROM (SELECT {nodes}, unit, system.main.sum(amount) AS amount {of}) "
            f"GROUP BY {places}"
        )

    @property
    def _apriori(self) -> str:
        """What is decided about cells beforehand, by their nodes, or nothing."""
        if self.apriori is None:
            return ""
        rows = f"(FROM {query_table(self.apriori)} UNION ALL BY NAME SELECT "
        rows += absent([*self.categories, *_DECIDED], own=False) + " WHERE false)"
        joins, places = [], []
        for crossed in self.crossed:
            node = f"n{crossed.place}"
            same = [
                f"CAST({node}.{crossed.key(name)} AS VARCHAR) IS NOT DISTINCT FROM "
                f"CAST(_dk_row.{identifier(name)} AS VARCHAR)"
                for name in crossed.columns
            ]
            for at, shown in enumerate(self.shown):
                if shown and shown[0] == crossed.place:
                    level = ("row_level", "col_level")[at] if at < 2 else f"by_level[{at - 1}]"
                    as_level = f"TRY_CAST(_dk_row.{level} AS BIGINT)"
                    if at >= 2:
                        as_level = f"TRY_CAST(TRY_CAST(_dk_row.by_level AS BIGINT[])[{at - 1}] AS BIGINT)"
                    same.append(f"({as_level} IS NULL OR {node}.l{shown[1]} = {as_level})")
            joins.append(f"LEFT JOIN _dk_nodes_{crossed.place} AS {node} ON {' AND '.join(same)}")
            places.append(f"{node}.node")
        return (
            f"_dk_apriori AS (SELECT [{', '.join(places)}] AS places, TRY_CAST(_dk_row.suppressed AS BOOLEAN) "
            f"AS suppressed, TRY_CAST(_dk_row.cost AS DOUBLE) AS cost FROM {rows} AS _dk_row {' '.join(joins)}),"
        )


def _shown(crossed: Sequence[Crossed], columns: Sequence[str]) -> tuple[int, ...]:
    """The numbers of the dimension and of the hierarchy in it that a list of columns is; nothing for an empty list."""
    for dimension in crossed:
        if tuple(columns) in dimension.lists:
            return dimension.place, dimension.lists.index(tuple(columns))
    return ()


def _check_roles(checked: Mapping[str, Any], by: Sequence[Sequence[str]]) -> None:
    """Check that no column has two parts in the table, except the last of two hierarchies over one dimension."""
    role_of: dict[str, str] = {}
    last = {fold(columns[-1]) for columns in (checked["rows"], checked["cols"]) if columns}
    named = [(name, part) for part in ("rows", "cols") for name in checked[part]]
    for columns in by:
        again = fold(columns[-1]) in last and len(columns) > 1
        named += [(name, "by") for name in (columns[:-1] if again else columns)]
        last.add(fold(columns[-1]))
    named += [(checked[part], part) for part in ("value", "count", "weight", "unit")]
    for name, part in named:
        if name is None:
            continue
        if fold(name) in role_of:
            raise InvalidInput(f'Column "{name}" is in both {role_of[fold(name)]} and {part}: name it in one of them.')
        role_of[fold(name)] = part


def _check_measure(checked: Mapping[str, Any]) -> None:
    """Check that what is summed and counted goes together with the rules."""
    value, unit, count = checked["value"], checked["unit"], checked["count"]
    if checked["digits"] and value is None and checked["weight"] is None:
        raise InvalidInput("digits are those of a column of values: name it, as in value := 'turnover'.")
    sums = checked["rule"] != ("threshold",)
    if value is None and unit is None and sums:
        raise InvalidInput(
            "p% and dominance are rules for sums of contributions: name the column, as in value := 'turnover', "
            "or count records of contributors, as in unit := 'company'."
        )
    if count is not None and (unit is not None or checked["weight"] is not None):
        raise InvalidInput(
            "Rows that stand for several records do not tell whose they are: leave count out, or leave out unit and "
            "weight."
        )


def _widths(value: object, rules: Sequence[str], argument: str, most: int) -> dict[str, float]:
    """The widths of intervals by rule."""
    options = options_of_numbers(value, argument, "{'p%': 20}")
    for rule, percent in options.items():
        if rule not in rules:
            raise InvalidInput(f"{argument} names '{rule}', which is not in rule: choose that rule, or leave it out.")
        if not 0 < percent <= most:
            raise InvalidInput(f"{argument} gives percentages of a cell: above 0, and {most} at most.")
    return options


def _rules(named: Sequence[str]) -> tuple[str, ...]:
    """The rules by their names in lower case."""
    if any(fold(name) not in _RULES for name in named):
        raise InvalidInput(f"rule must be one of {', '.join(map(literal, _RULES))}, or a list of them.")
    return tuple(map(fold, named))


def _parameters(checked: Mapping[str, Any]) -> dict[str, float | None]:
    """The arguments of the rules: None for those of other rules, which must not be given."""
    parameters: dict[str, float | None] = {}
    for rule, defaults in _RULES.items():
        for name, default in defaults.items():
            argument = checked[name]
            if argument is not None and rule not in checked["rule"]:
                raise InvalidInput(f"{name} is for rule := '{rule}': choose that rule, or leave {name} out.")
            parameters[name] = None if rule not in checked["rule"] else default if argument is None else argument
    return {
        name: float(argument) if isinstance(argument, Fraction) else argument for name, argument in parameters.items()
    }


def _check(
    request: Suppress,
    names: list[str],
    types: list[str],
    released: list[str],
    apriori: dict[str, list[str]] | None,
    codes: list[dict[str, list[str]] | None],
) -> None:
    table = Table(request.tbl, names, types)
    table.has(request.named)
    table.apart(request.categories, released)
    for name, role, kind in (
        (request.value, "value", "DECIMAL"),
        (request.count, "count", "BIGINT"),
        (request.weight, "weight", "DOUBLE"),
    ):
        if name is not None:
            table.number(name, role, kind)
    for crossed, code in zip(request.crossed, codes, strict=True):
        if crossed.codes is not None and code is not None:
            dimensions.check_codes(crossed, Table(crossed.codes, code["names"], code["types"]))
    if request.apriori is not None and apriori is not None:
        _check_decisions(Table(request.apriori, apriori["names"], apriori["types"]))


def _check_decisions(apriori: Table) -> None:
    """Check that a table decides something, in types that leave no doubt."""
    if not apriori.holds("suppressed") and not apriori.holds("cost"):
        raise InvalidInput(
            "apriori decides nothing: give it a column suppressed of BOOLEAN, or a column cost of numbers."
        )
    if apriori.holds("suppressed") and apriori.kind("suppressed") not in ("BOOLEAN", '"NULL"'):
        raise InvalidInput(
            'Column "suppressed" of apriori is not BOOLEAN: say true, false or NULL there, as in '
            "decision = 'suppress' AS suppressed."
        )
    if apriori.holds("cost") and apriori.kind("cost") != '"NULL"':
        apriori.number("cost", "a cost of apriori", "DOUBLE")
