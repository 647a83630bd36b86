"""The extra conditions of a k-anonymous release, l, t and max_suppression: from a call to SQL, and to the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.templates import literals

if TYPE_CHECKING:
    from duckanon.engines.kanon.demands import Conditions
    from duckanon.engines.kanon.risk import Sensitive

# What the engine's float may miss of the exact distance that the search went by.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Demanded:
    """What a call demands of sensitive columns. l, t: None where they are no condition."""

    sensitive: Sequence[str]
    l: int | None  # noqa: E741 - the argument's name
    t: Fraction | None
    suppress: Fraction

    @property
    def any(self) -> bool:
        return bool(self.sensitive)

    def literal(self) -> str:
        """The conditions as one SQL value, for `conditions`."""
        least = "NULL" if self.l is None else str(self.l)
        close = "NULL" if self.t is None else f"'{self.t}'"
        return f"{{'l': {least}::BIGINT, 't': {close}::VARCHAR, 'suppress': '{self.suppress}'}}"

    def unmet(self, source: str) -> str:
        """SQL that is true if the classes of `source` (class_id, members) fail by the measures of k_report."""
        if not self.any:
            return "false"
        parts = ["answer.problem IS NOT NULL"]
        if self.l is not None:
            parts.append(f"answer.measures.l < {self.l}")
        if self.t is not None:
            parts.append(f"answer.measures.t > {float(self.t) + _ROUNDING!r}")
        return (
            f"(SELECT ({' OR '.join(parts)}) IS NOT FALSE FROM (SELECT system.main._dk_k_report("
            f"system.main.list(members), {literals(self.sensitive)}, NULL::BIGINT[], NULL::DOUBLE) AS answer "
            f"FROM {source}))"
        )


def read(
    sensitive: object,
    l: object,  # noqa: E741 - the argument's name
    t: object,
    max_suppression: object,
    apart: Sequence[str],
    *,
    bare: bool = False,
) -> Demanded:
    """The conditions of a call. apart: columns that cannot be sensitive ones. bare: max_suppression may stand alone."""
    columns = arguments.names(sensitive, "sensitive", empty=True)
    least = None if l is None else arguments.whole(l, "l")
    close = None if t is None else arguments.share(t, "t", "0.2")
    suppress = Fraction(0) if max_suppression is None else arguments.share(max_suppression, "max_suppression", "0.02")
    if least is not None and least < 2:
        raise InvalidInput("l must be 2 or more: every class has one value of a sensitive column.")
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
    return Demanded(columns, least, close, suppress)


def conditions(k: int, demanded: Any) -> Conditions:
    """The engine's conditions, from the value of `Demanded.literal`."""
    from duckanon.engines.kanon.demands import Conditions

    given = demanded.as_py()
    close = None if given["t"] is None else Fraction(given["t"])
    return Conditions(k, given["l"], close, Fraction(given["suppress"]))


def columns(packed: pa.StructArray) -> list[Sensitive]:
    """Sensitive columns as the engine takes them, NULL a value of its own."""
    from duckanon.engines.kanon.risk import Sensitive
    from duckanon.functions.columns import encode, is_ordered

    found = []
    for i in range(packed.type.num_fields):
        column = packed.field(i)
        ordered = is_ordered(column.type)
        coded = encode(packed.type.field(i).name, column, categorical=not ordered)
        holds_null = bool((coded.codes == coded.distinct).any())
        found.append(Sensitive(coded.codes, coded.distinct + holds_null, ordered))
    return found
