"""The extra conditions of a k-anonymous release, on sensitive columns: from a call to SQL, and to the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.sqltext import literal, literals

if TYPE_CHECKING:
    from duckanon.engines.kanon.criteria.criteria import Conditions
    from duckanon.engines.kanon.risk import Sensitive

# What the engine's float may miss of the exact distance that the search went by.
_ROUNDING = 1e-9
_KINDS = ("distinct", "entropy", "recursive")


@dataclass(frozen=True)
class Demanded:
    """What a call demands of sensitive columns. l, t: None where they are no condition. c: of recursive diversity."""

    sensitive: Sequence[str]
    l: int | Fraction | None  # noqa: E741 - the argument's name
    diversity: str
    c: Fraction | None
    t: Fraction | None
    suppress: Fraction

    @property
    def any(self) -> bool:
        return bool(self.sensitive)

    def literal(self) -> str:
        """The conditions as one SQL value, for `conditions`."""
        given = {"l": self.l, "diversity": self.diversity, "c": self.c, "t": self.t, "suppress": self.suppress}
        fields = (
            f"'{name}': {'NULL' if value is None else literal(str(value))}::VARCHAR" for name, value in given.items()
        )
        return f"{{{', '.join(fields)}}}"

    def allowed(self, records: str) -> str:
        """SQL: how many of `records` may be missing."""
        return f"{records}::HUGEINT * {self.suppress.numerator} // {self.suppress.denominator}"

    def unmet(self, source: str) -> str:
        """SQL that is true if the classes of `source` (class_id, members) fail by the measures of k_report."""
        if not self.any:
            return "false"
        parts = ["answer.problem IS NOT NULL"]
        least = 2
        if self.c is not None and self.l is not None:
            least = int(self.l)
            parts.append(f"answer.measures.recursive_c >= {float(self.c)!r}")
        elif self.l is not None:
            measure = "entropy_l" if self.diversity == "entropy" else "l"
            parts.append(f"answer.measures.{measure} < {float(self.l):.12g}")
        if self.t is not None:
            parts.append(f"answer.measures.t > {float(self.t) + _ROUNDING!r}")
        return (
            f"(SELECT ({' OR '.join(parts)}) IS NOT FALSE FROM (SELECT system.main._dk_k_report("
            f"system.main.list(members), {literals(self.sensitive)}, NULL::BIGINT[], NULL::DOUBLE, {least}) AS answer "
            f"FROM {source}))"
        )


def read(
    sensitive: object,
    l: object,  # noqa: E741 - the argument's name
    diversity: object,
    c: object,
    t: object,
    max_suppression: object,
    apart: Sequence[str],
    *,
    bare: bool = False,
) -> Demanded:
    """The conditions of a call. apart: columns that cannot be sensitive ones. bare: max_suppression may stand alone."""
    columns = arguments.names(sensitive, "sensitive", empty=True)
    kind, least, ratio = _diversity(l, diversity, c)
    close = None if t is None else arguments.share(t, "t", "0.2")
    suppress = Fraction(0) if max_suppression is None else arguments.share(max_suppression, "max_suppression", "0.02")
    if columns and least is None and close is None:
        raise InvalidInput("sensitive names columns without a condition: give l or t, as in l := 3.")
    if not columns and (least is not None or close is not None):
        raise InvalidInput("l and t are conditions on sensitive columns: name them, as in sensitive := ['illness'].")
    if suppress == 1:
        raise InvalidInput("max_suppression must be below 1: a release without records is none.")
    if suppress and not columns and not bare:
        raise InvalidInput("max_suppression lets classes be dropped that fail l or t: give one of them.")
    taken = {name.lower() for name in apart}
    for name in columns:
        if name.lower() in taken:
            raise InvalidInput(f'Column "{name}" is in sensitive and in qi or drop: name it in one of them.')
    return Demanded(columns, least, kind, ratio, close, suppress)


def _diversity(
    l: object,  # noqa: E741 - the argument's name
    diversity: object,
    c: object,
) -> tuple[str, int | Fraction | None, Fraction | None]:
    """Which diversity, its l and its c. Whatever is rounded is rounded to what asks more."""
    kind = "distinct" if diversity is None else arguments.text(diversity, "diversity")
    if kind not in _KINDS:
        raise InvalidInput("diversity must be 'distinct', 'entropy' or 'recursive'.")
    if l is None and kind != "distinct":
        raise InvalidInput(f"diversity says how l counts: give l, as in l := 3, diversity := '{kind}'.")
    if c is not None and kind != "recursive":
        raise InvalidInput("c is a part of recursive diversity: add diversity := 'recursive', or leave c out.")
    if c is None and kind == "recursive":
        raise InvalidInput("diversity := 'recursive' needs c, as in l := 3, diversity := 'recursive', c := 2.")
    ratio = None if c is None else arguments.above(c, 0, "c", "3", up=False)
    if l is None:
        return kind, None, ratio
    if kind == "entropy":
        return kind, arguments.above(l, 1, "l", "2.5", up=True), ratio
    least = arguments.whole(l, "l")
    if least < 2:
        raise InvalidInput("l must be 2 or more: every class has one value of a sensitive column.")
    return kind, least, ratio


def conditions(k: int, demanded: Any) -> Conditions:
    """The engine's conditions, from the value of `Demanded.literal`."""
    from duckanon.engines.kanon.criteria.criteria import Conditions

    given = demanded.as_py()
    l, c, t = (None if given[name] is None else Fraction(given[name]) for name in ("l", "c", "t"))  # noqa: E741
    return Conditions(k, l, t, Fraction(given["suppress"]), given["diversity"], c)


def columns(packed: pa.StructArray) -> list[Sensitive]:
    """Sensitive columns as the engine takes them, NULL a value of its own."""
    from duckanon.engines.kanon.risk import Sensitive
    from duckanon.functions.encoding import encode, is_ordered

    found = []
    for i in range(packed.type.num_fields):
        column = packed.field(i)
        ordered = is_ordered(column.type)
        coded = encode(packed.type.field(i).name, column, categorical=not ordered)
        holds_null = bool((coded.codes == coded.distinct).any())
        found.append(Sensitive(coded.codes, coded.distinct + holds_null, ordered))
    return found
