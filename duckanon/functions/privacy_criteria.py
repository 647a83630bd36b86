"""Privacy criteria beyond k, on sensitive columns: from a call to SQL, and to the engine."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from duckanon.catalog.names import fold
from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.k_report import NULL_IS_VALUE, KReport
from duckanon.functions.population import Population
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import units

if TYPE_CHECKING:
    from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria

# How far the engine's float may be from the exact distance that the search used.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Criteria:
    """The criteria of a call for sensitive columns. l, t: None where they are not given. c: of recursive diversity.

    null_sensitive: 'value' if NULL is a sensitive value like others, 'ignored' if it is none.
    unit: the column of which k counts distinct values, and the criteria count each with each value once; None: records.
    """

    sensitive: tuple[str, ...]
    l: int | Fraction | None  # noqa: E741 - the argument's name
    diversity: str
    c: Fraction | None
    t: Fraction | None
    null_sensitive: str
    max_suppression: Fraction
    unit: str | None = None

    @property
    def null_is_value(self) -> bool:
        return self.null_sensitive == NULL_IS_VALUE

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns beside the quasi-identifiers that the engine needs, each once."""
        return (*self.sensitive, *([self.unit] if self.unit is not None else []))

    def check_columns(self, table: Table) -> None:
        """Check the columns that it names. Raises InvalidInput."""
        table.has(self.sensitive)
        table.plain(self.sensitive, "sensitive column")
        table.unit(self.unit)

    def engine_criteria(self, k: int) -> PrivacyCriteria:
        """As the engine takes them."""
        from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria

        return PrivacyCriteria(k, self.l, self.t, self.max_suppression, self.diversity, self.c)

    def allowed(self, records: str) -> str:
        """SQL: how many of `records` may be missing."""
        return f"{records}::HUGEINT * {self.max_suppression.numerator} // {self.max_suppression.denominator}"

    def smallest(self, labelled: str) -> str:
        """SQL: the size of the smallest class. labelled: rows and `_dk_classes`; class_id is NULL for dropped ones."""
        if self.unit is None:
            return "(SELECT system.main.min(size) FROM _dk_tallies WHERE class_id IS NOT NULL)"
        return (
            f"(SELECT system.main.min(units) FROM (SELECT {units(self.unit)} AS units FROM {labelled} "
            "WHERE _dk_classes.class_id IS NOT NULL GROUP BY _dk_classes.class_id))"
        )

    @property
    def least(self) -> int:
        """The l of recursive_c when a release is measured."""
        return int(self.l) if self.c is not None and self.l is not None else 2

    @property
    def failures(self) -> list[tuple[str, str, float]]:
        """When a release fails: a measure of k_report, '<', '>' or '>=', and a bound that it then compares so with."""
        failures = []
        if self.c is not None and self.l is not None:
            failures.append(("recursive_c", ">=", float(self.c)))
        elif self.l is not None:
            failures.append(("entropy_l" if self.diversity == "entropy" else "l", "<", float(f"{float(self.l):.12g}")))
        if self.t is not None:
            failures.append(("t", ">", float(self.t) + _ROUNDING))
        return failures

    def fails(self, measures: Mapping[str, Any]) -> bool:
        """Whether a release with these measures of k_report fails."""
        compared = {"<": operator.lt, ">": operator.gt, ">=": operator.ge}
        return any(compared[comparison](measures[name], bound) for name, comparison, bound in self.failures)

    def unmet(self, source: str) -> str:
        """SQL that is true if the classes of `source` (class_id, members) fail by the measures of k_report."""
        if not self.sensitive:
            return "false"
        parts = ["answer.problem IS NOT NULL"]
        parts += [f"answer.measures.{name} {comparison} {bound!r}" for name, comparison, bound in self.failures]
        report = KReport(
            tbl="",
            qi=(),
            sensitive=self.sensitive,
            population=Population(),
            l=self.least,
            null_sensitive=self.null_sensitive,
            unit=self.unit,
        )
        return f"(SELECT ({' OR '.join(parts)}) IS NOT FALSE FROM (SELECT {report.measured()} AS answer FROM {source}))"


def read(checked: dict[str, Any], apart: Sequence[str]) -> Criteria:
    """Take the criteria out of the arguments of a call. apart: columns that cannot be sensitive ones."""
    columns, close, unit, suppress = (checked.pop(name) for name in ("sensitive", "t", "unit", "max_suppression"))
    nulls = checked.pop("null_sensitive")
    kind, least, ratio = _diversity(*(checked.pop(name) for name in ("l", "diversity", "c")))
    if columns and least is None and close is None:
        raise InvalidInput("sensitive names columns without a condition: give l or t, as in l := 3.")
    if not columns and (least is not None or close is not None):
        raise InvalidInput("l and t are conditions on sensitive columns: name them, as in sensitive := ['illness'].")
    others = {fold(name) for name in apart}
    for name in columns:
        if fold(name) in others:
            raise InvalidInput(f'Column "{name}" is in sensitive and in qi or drop: name it in one of them.')
    arguments.check_unit(unit, checked["qi"], columns)
    return Criteria(columns, least, kind, ratio, close, nulls, suppress, unit)


def _diversity(
    l: object,  # noqa: E741 - the argument's name
    kind: str,
    ratio: Fraction | None,
) -> tuple[str, int | Fraction | None, Fraction | None]:
    """The kind of diversity, its l and its c. They are rounded to the stricter side."""
    if l is None and kind != "distinct":
        raise InvalidInput(f"diversity says how l counts: give l, as in l := 3, diversity := '{kind}'.")
    if ratio is not None and kind != "recursive":
        raise InvalidInput("c is a part of recursive diversity: add diversity := 'recursive', or leave c out.")
    if ratio is None and kind == "recursive":
        raise InvalidInput("diversity := 'recursive' needs c, as in l := 3, diversity := 'recursive', c := 2.")
    if l is None:
        return kind, None, ratio
    if kind == "entropy":
        return kind, _entropy(l), ratio
    least = arguments.whole(l, "l")
    if least < 2:
        raise InvalidInput("l must be 2 or more: every class has one value of a sensitive column.")
    return kind, least, ratio


def _entropy(value: object) -> Fraction:
    """The l of entropy diversity, as it was written, rounded up to six decimals."""
    fraction = Fraction(0)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and math.isfinite(value):
        fraction = Fraction(math.ceil(Fraction(str(value)) * 10**6), 10**6)
    if fraction <= 1:
        raise InvalidInput("l must be a number above 1, as in l := 2.5.")
    return fraction
