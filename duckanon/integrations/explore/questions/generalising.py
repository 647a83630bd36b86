"""k-anonymity: what a choice of columns gives away, what each k costs, and how rows look before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Self

from duckanon.catalog.names import identifier, literal
from duckanon.errors import InvalidInput
from duckanon.integrations.calls import call
from duckanon.integrations.copied_columns import Copied
from duckanon.integrations.explore.catalog import Column, Table
from duckanon.integrations.explore.choices import Choices, names
from duckanon.integrations.explore.jobs import Running
from duckanon.integrations.results import text
from duckanon.integrations.usefulness import Compared

METHODS = ("auto", "order")
_LARGEST_K = 100_000
_SHOWN_ROWS = 24
# How long to look for the lower bound of one k, in seconds: many are shown.
_BOUND = 3
_NUMBER = "duckanon explore row"
_BEFORE, _AFTER = '"duckanon.before"', '"duckanon.after"'
_CURVE = "k, information_loss, lower_bound, avg_class, min_class, classes, l, t, joined, suppressed, seconds"


@dataclass(frozen=True)
class Generalised:
    """What k_anonymize is asked, but for k. qi: the quasi-identifiers. dropped: columns to leave out.

    unit: whose a record is; it is left out of the release too.
    """

    table: Table
    qi: tuple[Column, ...]
    sensitive: tuple[Column, ...]
    dropped: tuple[Column, ...]
    unit: Column | None
    method: str
    l: int | None  # noqa: E741 - the field's name for it
    t: Decimal | None
    max_suppression: Decimal | None
    bands: tuple[tuple[str, Decimal | str], ...]

    @classmethod
    def read(cls, choices: Choices) -> Self:
        table = choices.table()
        qi = choices.columns("qi", table, least=1)
        bands = choices.widths("bands", table)
        return cls(
            table=table,
            qi=qi,
            sensitive=choices.columns("sensitive", table),
            dropped=choices.columns("dropped", table, most=1000),
            unit=choices.column("unit", table),
            method=choices.word("method", METHODS, "auto"),
            l=choices.maybe_whole("l", 2, 1000),
            t=choices.share("t"),
            max_suppression=choices.share("max_suppression"),
            bands=tuple(band for band in bands if band[0] in names(qi)),
        )

    @property
    def named(self) -> dict[str, object]:
        """The arguments that k_anonymize and k_compare share, by name; None where they are left out."""
        is_conditioned = self.l is not None or self.t is not None
        return {
            "categorical": [column.name for column in self.qi if column.is_text],
            "bands": dict(self.bands),
            "sensitive": names(self.sensitive) if is_conditioned else [],
            "l": self.l,
            "t": self.t,
            "unit": self.unit.name if self.unit else None,
            "max_suppression": self.max_suppression,
        }

    @property
    def left_out(self) -> list[str]:
        """The columns that the release does not have."""
        return names(self.dropped) + ([self.unit.name] if self.unit else [])

    def anonymize(self, k: int, *, of: str | None = None, unit: str | None = None) -> str:
        """The call of k_anonymize. of: another name of the table. unit: of the policy, where that has no say."""
        method = None if self.method == "auto" else self.method
        arguments = {"k": k, "method": method, **self.named, "drop": self.left_out}
        if self.unit is None:
            arguments["unit"] = unit
        return call("k_anonymize", of or self.table.sql, names(self.qi), **arguments)


@dataclass(frozen=True)
class Exposure:
    """How exposed the table is by the chosen quasi-identifiers, as it stands."""

    table: Table
    qi: tuple[Column, ...]
    unit: Column | None
    lane: ClassVar[str] = "short"

    @classmethod
    def read(cls, choices: Choices) -> Self:
        table = choices.table()
        return cls(table, choices.columns("qi", table, least=1), choices.column("unit", table))

    def answer(self, run: Running) -> object:
        """records, classes, k, singletons and max_risk of k_report."""
        unit = self.unit.name if self.unit else None
        return run.records(call("k_report", self.table.sql, names(self.qi), unit=unit))[0]


@dataclass(frozen=True)
class _AtOneK:
    """A question about a release at one k."""

    asked: Generalised
    k: int
    lane: ClassVar[str] = "long"

    @classmethod
    def read(cls, choices: Choices) -> Self:
        return cls(Generalised.read(choices), choices.whole("k", 2, _LARGEST_K))


class Curve(_AtOneK):
    """What a release would lose at one k, and how little any release could lose."""

    def answer(self, run: Running) -> object:
        """A row of k_compare. A bound at k holds at every larger k, too: the page shows its running maximum."""
        asked = self.asked
        # `auto` would search for as long; a fixed effort finds what the release will have.
        seconds = _BOUND if asked.method == "order" else None
        compared = call(
            "k_compare",
            asked.table.sql,
            names(asked.qi),
            k=[self.k],
            methods=[asked.method],
            seconds=seconds,
            **asked.named,
        )
        return run.records(f"SELECT {_CURVE} {compared}")[0]


class Preview(_AtOneK):
    """Some rows before and after k_anonymize, and what the release still tells."""

    def answer(self, run: Running) -> object:
        """`columns`: names with their roles. `rows`: for each its values before and after, after NULL if dropped.

        `records`, `released`, `classes` and `k` count; `utility` has rows of k_utility. `shares`: of each sensitive
        column the largest share that one value has in any class, and in how many classes it is all.
        """
        self._make(run)
        columns = [column for column in self.asked.table.columns if column.name not in self.asked.left_out]
        ((records, released, classes, least),) = run.rows(
            f"SELECT (SELECT count(*) FROM {_BEFORE}), coalesce(sum(n), 0)::BIGINT, count(*), min(n) "  # noqa: S608
            f"FROM (SELECT count(*) AS n FROM {_AFTER} GROUP BY class_id)"
        )
        return {
            "columns": [{"name": column.name, "is_changed": column in self.asked.qi} for column in columns],
            "rows": self._rows(run, columns, records),
            "records": records,
            "released": released,
            "classes": classes,
            "k": least,
            "utility": self._utility(run, columns) if released else [],
            "shares": self._shares(run) if released else [],
        }

    def _make(self, run: Running) -> None:
        """The table with numbered rows, and its release, as temporary tables of this connection."""
        run.rows(
            f"CREATE OR REPLACE TEMP TABLE {_BEFORE} AS SELECT *, row_number() OVER () AS {identifier(_NUMBER)} "  # noqa: S608
            f"FROM {self.asked.table.sql}"
        )
        policy = next(
            (record for record in run.records("FROM policies()") if record["tbl"] == self.asked.table.label), None
        )
        unit = policy["privacy_unit"] if policy else None
        if unit is not None and unit.lower() not in {column.name.lower() for column in self.asked.table.columns}:
            raise InvalidInput(
                f"The privacy unit of {self.asked.table.label} is in another table, and rows are shown with units of "
                "their own only: make the copy with k_anonymize in SQL, which looks the owners up."
            )
        query = self.asked.anonymize(self.k, of=_BEFORE, unit=unit)
        run.rows(f"CREATE OR REPLACE TEMP TABLE {_AFTER} AS {query}")

    def _rows(self, run: Running, columns: Sequence[Column], records: int) -> list[dict[str, Any]]:
        """Rows from the whole table, evenly apart."""
        number, step = identifier(_NUMBER), max(1, records // _SHOWN_ROWS)
        some = f"WHERE {number} % {step} = 0 ORDER BY {number} LIMIT {_SHOWN_ROWS}"
        before = {record[_NUMBER]: record for record in run.records(f"FROM {_BEFORE} {some}")}
        listed = ", ".join(map(str, before)) or "0"
        after = {record[_NUMBER]: record for record in run.records(f"FROM {_AFTER} WHERE {number} IN ({listed})")}
        banded = dict(self.asked.bands)
        return [
            {
                "before": [text(row[column.name]) for column in columns],
                "after": [shown(after[at], column.name, banded=column.name in banded) for column in columns]
                if at in after
                else None,
            }
            for at, row in before.items()
        ]

    def _shares(self, run: Running) -> list[dict[str, Any]]:
        shares = []
        for column in self.asked.sensitive:
            ((most, alike),) = run.rows(
                "SELECT max(most), count(*) FILTER (most = 1) FROM ("  # noqa: S608 - names of the catalog
                "SELECT max(n) / sum(n) AS most FROM "
                f"(SELECT class_id, count(*) AS n FROM {_AFTER} GROUP BY class_id, {identifier(column.name)}) "
                "GROUP BY class_id)"
            )
            shares.append({"column": column.name, "most": most, "alike": alike})
        return shares

    def _utility(self, run: Running, columns: Sequence[Column]) -> list[dict[str, Any]]:
        described = run.records(f"DESCRIBE FROM {_AFTER}")
        types = {one["column_name"].lower(): one["column_type"] for one in described}
        copied = Copied.of(run.con, _AFTER)
        apart = [*copied.identifying, _NUMBER]
        compared = Compared.of(run.con, names(columns), _AFTER, types, apart)
        if not compared.columns:
            return []
        asked = compared.call(_BEFORE, _AFTER)
        wanted = ", ".join(map(literal, ("total_variation", "mean", "query_error", "correlation")))
        return run.records(
            f"SELECT measure, columns, value, before, after, difference {asked} WHERE measure IN ({wanted})"
        )


def shown(row: Mapping[str, Any], column: str, *, banded: bool) -> str:
    """A cell of a release: a value, `low to high`, a band `[low, high)`, or a set `{a, b}`."""
    if f"{column}_set" in row:
        values = row[f"{column}_set"]
        if values is None:
            return "any value"
        return text(values[0]) if len(values) == 1 else "{" + ", ".join(map(text, values)) + "}"
    if f"{column}_lo" not in row:
        return text(row[column])
    low, high = row[f"{column}_lo"], row[f"{column}_hi"]
    if low is None and high is None:
        return "any value"
    if banded:
        if low is None:
            return f"below {text(high)}"
        return f"{text(low)} or more" if high is None else f"[{text(low)}, {text(high)})"
    return text(low) if low == high else f"{text(low)} to {text(high)}"
