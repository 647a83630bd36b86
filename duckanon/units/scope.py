"""What the relations of one statement share: what may be seen, the names of columns, and what open tables hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from fractions import Fraction
from math import ceil, floor, log10
from typing import Any, Protocol

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.catalog.snapshot import Catalog, Protected
from duckanon.catalog.types import FLOATS, own_step, step_between
from duckanon.rewrite.algebra.constants import ZONED, plain
from duckanon.rewrite.algebra.expressions import SOMEWHERE, Column, Expr, Nested, rebuilt
from duckanon.rewrite.algebra.filters import written
from duckanon.rewrite.algebra.relations import Block
from duckanon.units.fields import Bounds, Field, Made
from duckanon.units.relation import Answered, OpenRows
from duckanon.units.uniqueness import no_two_share

# Floats of an open table are counted in steps with so many digits at least, of those that tell the ends apart.
_DIGITS = 5


class NotLocal(Exception):
    """Why what a query reads is not computed within each unit, in a sentence. part: its node, if it is known."""

    def __init__(self, reason: str, part: Any = None) -> None:
        super().__init__(reason)
        self.part = part


class NotToldApart(NotLocal):
    """Columns of two types are compared, of which one value may be equal to several: so a row could meet several."""

    def __init__(self, what: str, kind: str, other: str, part: Any = None) -> None:
        types = f"columns of the types {plain(kind)} and {plain(other)}" if kind != other else f"{plain(kind)}s"
        way = "columns of one type" if kind != other else "columns of another type"
        if {kind, other} == {"DATE", "TIMESTAMP"}:
            way += ", as CAST(x AS DATE) makes them, or date_trunc('day', x)"
        text = f"{what} is joined by {types}, of which one value may be equal to several others: compare {way}."
        super().__init__(text, part)


class OtherUnits(NotLocal):
    """A subquery asks records of other units than the one of its row. part: the subquery."""


class Public(Protocol):
    """What may be known of open tables while deciding: their contents are public."""

    def content(self, values: OpenRows) -> str:
        """A hash of the values that are read of an open table."""
        ...

    def value(self, query: str) -> Any:
        """The first row that a query over open tables alone gives, as a tuple."""
        ...


class Scope:
    """What the relations of one statement share.

    catalog: what may be seen. public: what is known of open tables. today: what `current_date` stands for. ask: makes
    a question of its own of a query for numbers of all units, whose noisy answer stands in its place. across: of
    blocks that were looked at, what is known of those that group records of several units; None for others.
    """

    def __init__(
        self,
        catalog: Catalog,
        public: Public,
        today: date,
        ask: Callable[[Block], Answered],
        across: dict[Block, NotLocal | None] | None = None,
    ) -> None:
        self.catalog, self.public, self.today, self.ask = catalog, public, today, ask
        self.across: dict[Block, NotLocal | None] = {} if across is None else across
        # The protected tables that are read, and by what their units are identified.
        self.read: dict[TableName, Protected] = {}
        self.unit_kinds: set[str] = set()
        # The columns of sources by their names in relations, each of which occurs once.
        self._names: dict[tuple[int, str], str] = {}
        self._taken: set[str] = set()
        self._sources = 0

    @property
    def protected(self) -> Mapping[TableName, Protected]:
        """The tables with a policy."""
        return self.catalog.protected

    # --- names --------------------------------------------------------------------------------------------------------

    def new_name(self, wanted: str, table: str = "") -> str:
        """A name for a column that no other column has: as it is written, else with its table's, else numbered."""
        plain = fold(wanted)
        longer = f"{fold(table)}.{plain}" if table else plain
        text, number = plain, 1
        while text in self._taken:
            text = longer if number == 1 and table else f"{longer}#{number + 1}"
            number += 1
        self._taken.add(text)
        return text

    def new_source(self) -> int:
        """A number that no source of the statement has: for values that are a table's, but no row of it."""
        self._sources += 1
        return -self._sources

    def call(self, number: int, column: str, name: str) -> str:
        """Let a source's column be known by a name in relations."""
        self._names[number, column] = name
        return name

    def name(self, column: Column) -> str:
        """The name of a source's column; empty where it is not among what is joined."""
        return column.name if column.source == SOMEWHERE else self._names.get((column.source, column.name), "")

    def over(self, expr: Expr) -> Expr:
        """An expression over the names of relations. Raises NotLocal."""

        def change(expression: Expr) -> Expr | None:
            if isinstance(expression, Column):
                name = self.name(expression)
                if not name:
                    raise NotLocal(f"The column {expression.name} is not one of what is joined here.")
                return Column(SOMEWHERE, name)
            if isinstance(expression, Nested):
                raise NotLocal("A subquery stands where it is not followed: put it into WHERE by itself.")
            return None

        return rebuilt(expr, change)

    def is_enum(self, field: Field | None) -> bool:
        """Whether a column is text here and an ENUM in its table, which is ordered by its list of values."""
        if field is None or field.origin is None:
            return False
        stored = self.catalog.stored(field.origin.table)
        return stored is not None and stored.types[field.origin.column].startswith("ENUM(")

    def written(self, condition: Expr, fields: Mapping[str, Field]) -> str:
        """A condition over a relation's columns, as SQL that cannot fail. Raises NotTotal."""
        return written(condition, {name: field.kind for name, field in fields.items()}, self.today)

    # --- open tables --------------------------------------------------------------------------------------------------

    def holds(self, query: str) -> bool:
        """The truth value that a query over open tables gives."""
        value, *_ = self.public.value(query)
        return bool(value)

    def is_unique(self, made: Made, columns: frozenset[str]) -> bool:
        """Whether no two rows of a relation (with a unit: of one unit) share the values of some of its columns."""
        if any(texts <= columns for texts in made.unique):
            return True
        if not made.is_open:
            return False
        if not columns:
            return self.holds(f"SELECT system.main.count(*) <= 1 FROM ({of_open(made)}) AS r")
        return self.holds(no_two_share(f"({of_open(made)})", columns))

    def bounds(self, field: Field) -> Bounds | None:
        """The bounds of a number: computed ones, those of the policy, or those of an open table's values."""
        if field.bounds is not None or field.origin is None:
            return field.bounds
        if field.origin.rows is not None:
            return self._of_values(field.origin.rows, field.origin.column, field.kind)
        declared = {fold(name): bound for name, bound in self.protected[field.origin.table].policy.bounds.items()}
        texts = declared.get(field.origin.column)
        if texts is None or field.kind in ("DATE", "TIMESTAMP", ZONED, "VARCHAR"):
            return None
        low, high, *steps = map(Fraction, texts)
        return low, high, (steps[0] if steps else step_between(field.kind, low, high))

    def moments(self, field: Field) -> Bounds | None:
        """The bounds of a date in days, or of a timestamp in microseconds: computed ones, or those of the policy.

        Those of moments with a time zone are in UTC.
        """
        if field.bounds is not None or field.origin is None or field.origin.rows is not None:
            return field.bounds
        policy, column = self.protected[field.origin.table].policy, field.origin.column
        declared = {fold(name): bound for name, bound in policy.bounds.items()}
        ends = declared.get(column) if field.kind == ZONED else policy.moments(column)
        if ends is None:
            return None
        unit = timedelta(days=1) if field.kind == "DATE" else timedelta(microseconds=1)
        moments = (datetime.fromisoformat(end).replace(tzinfo=None) for end in ends)
        low, high = ((moment - datetime(1970, 1, 1)) // unit for moment in moments)
        return Fraction(low), Fraction(high), Fraction(1)

    def _of_values(self, rows: OpenRows, column: str, kind: str) -> Bounds | None:
        """The least and the largest number of an open table's column, and steps between them; None without both."""
        step, name = own_step(kind), quoted([column])
        source = f"{quoted(rows.location.path)} AS _dk_open"
        if step is not None:
            low, high = self.public.value(f"SELECT system.main.min({name}), system.main.max({name}) FROM {source}")
            return None if low is None else (Fraction(low), Fraction(high), step)
        if kind not in FLOATS:
            return None
        # Where some are not finite, there is no largest one.
        ends = f"system.main.min({name}), system.main.max({name}), system.main.bool_and(system.main.isfinite({name}))"
        low, high, are_finite = self.public.value(f"SELECT {ends} FROM {source}")
        return _in_decimals(Fraction(low), Fraction(high)) if are_finite else None


def _in_decimals(low: Fraction, high: Fraction) -> Bounds:
    """Bounds of floats from around them, with steps of a power of ten, of which a hundred thousand or more fit in."""
    reach = high - low or abs(low) or Fraction(1)
    power = floor(log10(reach))
    # (Floats do not tell a number that is just below a power of ten from it.)
    step = Fraction(10) ** (power - (Fraction(10) ** power > reach) - _DIGITS)
    return floor(low / step) * step, ceil(high / step) * step, step


def of_open(made: Made) -> str:
    """The query for a relation of open tables."""
    return made.relation.sql(lambda location: quoted(location.path))
