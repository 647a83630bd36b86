"""Results of statements, fetched to the end, and their values as text."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from duckanon.connection import Connection

_BATCH = 10_000
# Figures of k_report and k_compare that are shares of 1.
SHARES = {
    "max_risk", "avg_risk", "journalist_max", "journalist_avg", "information_loss", "lower_bound", "classification",
    "moved",
}  # fmt: skip


class Format(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


@dataclass(frozen=True)
class Result:
    """Column names, rows kept (all, or the first few), and how many rows there were."""

    columns: Sequence[str]
    rows: Sequence[tuple[Any, ...]]
    total: int

    def records(self) -> list[dict[str, Any]]:
        """The rows that were kept, by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def fetch(con: Connection, keep: int | None = None) -> Result:
    """The open result of `con`, with its first `keep` rows. All rows are read: an open result blocks DuckDB 2."""
    columns = _distinct([column[0] for column in con.description or []])
    rows: list[tuple[Any, ...]] = []
    total = 0
    while batch := con.fetchmany(_BATCH):
        total += len(batch)
        rows += batch if keep is None else batch[: max(0, keep - len(rows))]
    return Result(columns, rows, total)


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number after those that repeat: `a`, `a_1`."""
    texts: Counter[str] = Counter()
    values = []
    for name in names:
        values.append(f"{name}_{texts[name]}" if texts[name] else name)
        texts[name] += 1
    return values


def text(value: object) -> str:
    """A value as text, much like SQL shows it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(text(one) for one in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text(name)}: {text(one)}" for name, one in value.items()) + "}"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    return str(value)


def figure(name: str, value: Any) -> str:
    """A figure of k_report or k_compare as text: shares in percent, thousands separated by commas."""
    if value is None:
        return "-"
    if name in SHARES:
        return f"{100 * value:.3g} %"
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def _plain(value: object) -> object:
    """A value for JSON. Values of types that JSON lacks become text."""
    if isinstance(value, Mapping):
        return {text(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return text(value)


def as_json(result: Result, out: TextIO) -> None:
    """Write a list of objects, one for each row, an object a line."""
    objects = (dict(zip(result.columns, map(_plain, row), strict=True)) for row in result.rows)
    lines = ",\n ".join(json.dumps(one, ensure_ascii=False) for one in objects)
    out.write(f"[{lines}]\n")


def as_csv(result: Result, out: TextIO) -> None:
    """Write a header and the rows; NULL is an empty field."""
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(result.columns)
    lines.writerows([None if value is None else text(value) for value in row] for row in result.rows)
