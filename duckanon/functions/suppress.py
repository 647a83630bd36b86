"""suppress: from a call to the query that sums the records to a table with totals, and the engine's call inside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckanon.catalog.names import fold, identifier, literal
from duckanon.errors import DuckanonError, InvalidInput
from duckanon.functions.arrow import integers, lists, row_type
from duckanon.functions.cells import Cells
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import absent, call, check, fill, literals, struct
from duckanon.functions.udf import Host, Instance, register_check, register_engine

if TYPE_CHECKING:
    from duckanon.engines.suppression.problem import Problem
    from duckanon.engines.suppression.rules import Rule

Ints = npt.NDArray[np.int64]

_RELEASED = ("row_level", "col_level", "value", "suppressed")
_AUDITED = ("status", "true_value", "lower", "upper")
_FOUND = {
    "row_place": "BIGINT[]",
    "col_place": "BIGINT[]",
    "status": "VARCHAR[]",
    "lower": "DOUBLE[]",
    "upper": "DOUBLE[]",
}
# The arguments of each rule with their defaults.
_RULES: Mapping[str, Mapping[str, int]] = {
    "threshold": {"n": 3},
    "p%": {"p": 10},
    "dominance": {"contributors": 1, "percent": 75},
}
# The equations of larger tables exceed what a search for a pattern can handle.
_MOST_CELLS = 1_000_000


def register(on: Instance, host: Host) -> None:  # noqa: ARG001
    """Put the functions behind suppress on a database instance."""
    on.function(Suppress)
    register_check(on, "suppress", _check, Suppress)
    register_engine(on, "_dk_suppress", _suppress, "found", row_type(_FOUND), Suppress)


# --- from a call to a query -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Suppress(Cells):
    """A call of suppress. n, p, contributors, percent: as given or by default; None where no rule takes them."""

    function = "suppress"
    value: str | None
    digits: int
    unit: str | None
    rule: tuple[str, ...]
    n: int | None
    p: float | None
    contributors: int | None
    percent: float | None
    audit: bool

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        asked = cls.checked(given)
        value, unit = asked["value"], asked["unit"]
        _apart(asked["rows"], asked["cols"], value, unit)
        if asked["digits"] and value is None:
            raise InvalidInput("digits are those of a column of values: name it, as in value := 'turnover'.")
        asked["rule"] = _rules(asked["rule"])
        if value is None and unit is None and asked["rule"] != ("threshold",):
            raise InvalidInput(
                "p% and dominance are rules for sums of contributions: name the column, as in value := 'turnover', "
                "or count records of contributors, as in unit := 'company'."
            )
        return cls(**(asked | _parameters(asked)))

    def query(self) -> str:
        named = [*self.categories, *(one for one in (self.value, self.unit) if one)]
        cell = struct({name: name for name in ("row_place", "col_place", "amount", "contributors", "largest")})
        audited = f', status, {self._sum} AS true_value, _dk_found."lower", _dk_found."upper"'
        return fill(
            "suppress",
            table=literal(self.tbl),
            absent=absent(named),
            problem=check("suppress", self.literal, released=literals(_RELEASED + _AUDITED)),
            keys=self.keys,
            amount=self._amount,
            unit=identifier(self.unit) if self.unit else "NULL",
            exact=self._exact,
            flaws=self._flaws,
            cells=self._cells,
            row_order=_preorder("row_level", self.in_rows),
            col_order=_preorder("col_level", self.in_cols),
            row_keys=", ".join(["row_level", *self.in_rows]),
            col_keys=", ".join(["col_level", *self.in_cols]),
            answer=call(
                "_dk_suppress",
                request=self.literal,
                cells=f"system.main.list({cell})",
                row_levels=_levels("row"),
                col_levels=_levels("col"),
            ),
            released=self._released,
            sum=self._sum,
            audited=audited if self.audit else "",
        )

    @property
    def largest(self) -> int:
        """How many of the largest contributions the rules look at."""
        return max(2 if self.p is not None else 0, self.contributors or 0)

    @property
    def counted(self) -> bool:
        """Whether each record is a contributor of its own and adds 1."""
        return self.value is None and self.unit is None

    @property
    def _released(self) -> str:
        """The columns of the table's rows and columns, under the caller's names."""
        sides = ((self.rows, self.in_rows, "_dk_rows"), (self.cols, self.in_cols, "_dk_columns"))
        named = [(f"{side}.{key}", name) for own, keys, side in sides for name, key in zip(own, keys, strict=True)]
        return ", ".join(f"{key} AS {identifier(name)}" for key, name in named)

    @property
    def _amount(self) -> str:
        """What a record adds to its cell."""
        # Sums of so many digits still fit 38 after ten billion records.
        return "1" if self.value is None else f"TRY_CAST({identifier(self.value)} AS DECIMAL(28, {self.digits}))"

    @property
    def _exact(self) -> str:
        """Whether a record's value has no more decimals than the table."""
        if self.value is None:
            return "true"
        value = identifier(self.value)
        # Doubles are compared as doubles: as decimals they would change their last digits.
        return (
            f"CASE WHEN system.main.typeof({value}) IN ('DOUBLE', 'FLOAT') "
            f"THEN TRY_CAST({value} AS DOUBLE) = TRY_CAST({self._amount} AS DOUBLE) "
            f"ELSE TRY_CAST({value} AS DECIMAL(38, 18)) = {self._amount} END"
        )

    @property
    def _sum(self) -> str:
        """A cell's sum, in a type that holds the largest possible."""
        kind = f"DECIMAL(18, {self.digits})" if self.digits else "BIGINT"
        return f"CAST(coalesce(_dk_cells.amount, 0) AS {kind})"

    @property
    def _flaws(self) -> str:
        """What may be wrong with the records, as an aggregate: a sentence, or NULL."""
        said = f'Column "{self.value}" holds '
        more = (
            f"numbers with more than {self.digits} decimals: round them, or choose larger digits."
            if self.digits
            else "numbers that are not whole: say how many decimals they have, as in digits := 2."
        )
        flaws = [
            ("amount IS NULL", f"{said}NULL, infinity or too large a number: replace it, or leave those rows out."),
            ("amount < 0", f"{said}a negative number: contributions must be at least 0."),
            ("exact IS NOT true", said + more),
        ]
        if self.value is None:
            flaws = []
        if self.unit is not None:
            whose = f'Column "{self.unit}" holds NULL: say whose each record is, or leave those rows out.'
            flaws.append(("unit IS NULL", whose))
        none = literal("The table has no rows: there is nothing to publish.")
        cases = " ".join(f"WHEN {test} THEN {literal(text)}" for test, text in flaws)
        found = f"system.main.max(CASE {cases} END)" if cases else "NULL"
        return f"CASE WHEN system.main.count(*) = 0 THEN {none} ELSE {found} END"

    @property
    def _cells(self) -> str:
        """The cells with their totals, from the records: each one's sum, its contributors and largest contributions."""
        keys = ", ".join([*self.in_rows, *self.in_cols])
        levels = f"{_level(self.in_rows)} AS row_level, {_level(self.in_cols)} AS col_level"
        sets = ", ".join(f"ROLLUP ({', '.join(own)})" for own in (self.in_rows, self.in_cols) if own)
        sound = "FROM _dk_records WHERE (SELECT fine FROM _dk_sound)"
        top = f"system.main.max(amount, {self.largest})" if self.largest else "NULL"
        contributors = "system.main.count(*) FILTER (WHERE amount > 0)"
        measures = f"system.main.sum(amount) AS amount, {contributors} AS contributors, {top} AS largest"
        if self.unit is None:
            return f"SELECT {keys}, {levels}, {measures} {sound} GROUP BY {sets}"
        each = f"SELECT {keys}, {levels}, system.main.sum(amount) AS amount {sound} GROUP BY {sets}, unit"
        return f"SELECT {keys}, row_level, col_level, {measures} FROM ({each}) GROUP BY ALL"


def _apart(rows: Sequence[str], cols: Sequence[str], value: str | None, unit: str | None) -> None:
    """Check that no column has two parts in the table."""
    taken: dict[str, str] = {}
    named = [*((name, "rows") for name in rows), *((name, "cols") for name in cols), (value, "value"), (unit, "unit")]
    for name, part in named:
        if name is None:
            continue
        if fold(name) in taken:
            raise InvalidInput(f'Column "{name}" is in both {taken[fold(name)]} and {part}: name it in one of them.')
        taken[fold(name)] = part


def _rules(named: Sequence[str]) -> tuple[str, ...]:
    """The rules by their names in lower case."""
    if any(fold(one) not in _RULES for one in named):
        raise InvalidInput(f"rule must be one of {', '.join(map(literal, _RULES))}, or a list of them.")
    return tuple(map(fold, named))


def _parameters(asked: Mapping[str, Any]) -> dict[str, float | None]:
    """The arguments of the rules: None for those of other rules, which must not be given."""
    found: dict[str, float | None] = {}
    for rule, defaults in _RULES.items():
        for name, default in defaults.items():
            value = asked[name]
            if value is not None and rule not in asked["rule"]:
                raise InvalidInput(f"{name} is for rule := '{rule}': choose that rule, or leave {name} out.")
            found[name] = None if rule not in asked["rule"] else default if value is None else value
    return {name: float(value) if isinstance(value, Fraction) else value for name, value in found.items()}


def _level(own: Sequence[str]) -> str:
    """By how many of the columns a row of a rollup is grouped: 0 for the total."""
    return " + ".join(["0::BIGINT", *(f"(1 - GROUPING({key}))" for key in own)])


def _preorder(level: str, own: Sequence[str]) -> str:
    """Sort keys of a rollup that put each total before its parts, NULL last among the values."""
    keys = [f"{level} >= {i} ASC, {key} ASC NULLS LAST" for i, key in enumerate(own, 1)]
    return ", ".join(keys) or level


def _levels(side: str) -> str:
    """The levels of a side's nodes, in their order."""
    nodes = f"SELECT DISTINCT {side}_place, {side}_level FROM _dk_cells"
    return f"(SELECT system.main.list({side}_level ORDER BY {side}_place) FROM ({nodes}))"


def _check(request: Suppress, names: list[str], types: list[str], released: list[str]) -> None:
    found = Table(request.tbl, names, types)
    found.has([*request.categories, *(one for one in (request.value, request.unit) if one)])
    found.apart(request.categories, released)
    if request.value is not None:
        found.number(request.value, "value", "DECIMAL")


# --- the engine's call ------------------------------------------------------------------------------------------------


def _suppress(request: Suppress, cells: pa.Scalar, row_levels: pa.Scalar, col_levels: pa.Scalar) -> pa.Array:
    from duckanon.engines.suppression.suppress import suppress

    packed = cells.values
    one = _problem(request, packed, row_levels.as_py(), col_levels.as_py())
    found = suppress(one)
    if (found.lower > found.demand_lower).any() or (found.upper < found.demand_upper).any():
        raise DuckanonError("The suppressed table did not pass its audit, so it is withheld: please report this.")
    suppressed = (found.primary | found.secondary).ravel()
    status = np.full(suppressed.shape, "published", dtype=object)
    status[suppressed] = "secondary"
    status[found.primary.ravel()] = "primary"
    lower, upper = _ends(one, suppressed, request.digits) if request.audit else _no_ends(status)
    places = np.indices(one.table.units.shape).reshape(2, -1)
    return lists(list(_FOUND), (*places, pa.array(status, pa.string()), lower, upper))


def _problem(request: Suppress, cells: pa.StructArray, row_levels: list[int], col_levels: list[int]) -> Problem:
    """The table with its totals, what its rules demand, and what attackers know. Raises InvalidInput."""
    from duckanon.engines.suppression.problem import problem
    from duckanon.engines.suppression.rules import Cells as Contributions
    from duckanon.engines.suppression.rules import levels
    from duckanon.engines.suppression.table import Table as Totals

    shape = len(row_levels), len(col_levels)
    if shape[0] * shape[1] > _MOST_CELLS:
        raise InvalidInput("The table would have more than 1,000,000 cells: name fewer columns in rows or cols.")
    at = integers(cells.field("row_place")), integers(cells.field("col_place"))

    def grid(values: npt.ArrayLike) -> Ints:
        found = np.zeros(shape, dtype=np.int64)
        found[at] = values
        return found

    units = grid(_units(cells.field("amount").to_pylist(), request.digits))
    table = Totals.of(units, _parents(row_levels), _parents(col_levels))
    counts, largest = None, None
    if not request.counted:
        counts = grid(integers(cells.field("contributors")))
    if request.largest:
        tops = [top + [0] * (request.largest - len(top)) for top in cells.field("largest").to_pylist()]
        largest = np.array([grid(_units(kth, request.digits)) for kth in zip(*tops, strict=True)])
    return problem(table, levels(Contributions.of(table, counts, largest), _asked(request)))


def _asked(request: Suppress) -> list[Rule]:
    from duckanon.engines.suppression.rules import Dominance, PPercent, Threshold

    found: list[Rule] = []
    if request.n is not None:
        found.append(Threshold(request.n))
    if request.p is not None:
        found.append(PPercent(request.p))
    if request.contributors is not None and request.percent is not None:
        found.append(Dominance(request.contributors, request.percent))
    return found


def _parents(levels: Sequence[int]) -> Ints:
    """Of nodes with their levels, each total before its parts: the node that each is a part of, or -1."""
    latest: dict[int, int] = {}
    found = np.full(len(levels), -1, dtype=np.int64)
    for node, level in enumerate(levels):
        found[node] = latest.get(level - 1, -1)
        latest[level] = node
    return found


def _units(values: Sequence[Decimal | int], digits: int) -> list[int]:
    """Values in units of their last digit. Raises InvalidInput where they are too many to add up exactly."""
    from duckanon.engines.suppression.table import MOST_UNITS

    found = [Decimal(value).scaleb(digits) for value in values]
    if any(value > MOST_UNITS for value in found):
        raise InvalidInput("The values add up to more than 2^45 of their last digits: sum them in thousands.")
    return [int(value) for value in found]


def _ends(one: Problem, suppressed: npt.NDArray[np.bool_], digits: int) -> tuple[pa.Array, pa.Array]:
    """The intervals of the suppressed cells that the published table leaves; NULL for the others."""
    from duckanon.engines.suppression.audit import Published, intervals

    cells = np.flatnonzero(suppressed)
    found = intervals(Published.of(one.table, suppressed, one.least, one.most), cells.tolist())
    ends = np.zeros((2, len(suppressed)))
    ends[:, cells] = np.array([found.lower, found.upper]) / 10**digits
    lower, upper = (pa.array(end, mask=~suppressed) for end in ends)
    return lower, upper


def _no_ends(status: npt.NDArray[np.object_]) -> tuple[pa.Array, pa.Array]:
    none = pa.nulls(len(status), pa.float64())
    return none, none
