"""Half (a): the same statements over two databases of equal public facts; all that an analyst observes is equal.

Answers are injected: what a question is answered with follows from its key and its form alone. So nothing that comes
back may depend on protected records, and everything is compared: rows, names, types, errors with their causes,
decisions, the catalog, budgets and the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from duckanon.analyst import Analyst
from duckanon.releases import mechanisms
from duckanon.releases.measures import Measure, Quantiles, Sums
from duckanon.releases.mechanisms import aggregates, forms, group_sizes, marginals
from duckanon.releases.paid_questions import AggregatesQuestion, GroupSizesQuestion, KeysQuestion, PaidQuestion
from duckanon.releases.preparations import FollowingQuestion, PreparationQuestion
from duckanon.rewrite import rule_context
from duckanon.rewrite.decision import Decision, Verdict

# Values of keys that are found with noise.
_TEXTS, _DAYS = ["cold", "flu", "gout", "it's"], [date(2020, 1, day) for day in range(1, 20)]
# Times of the day are no part of the promise; days are the same in both. Where a table is drawn, a time may be
# cut, or followed by blanks.
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d[ T]\d[\d:.]*([+-]\d\d(:\d\d)?)?\u2026? *|datetime\.datetime\([^)]*\)")
# A publication's line keeps one of the records that it was made from, which no analyst sees.
_FINGERPRINT = re.compile(r'"records": "[0-9a-f]{64}"')
_SEEN = (
    "SHOW TABLES",
    "FROM information_schema.tables",
    "FROM information_schema.columns",
    "FROM information_schema.schemata",
    "SHOW ALL TABLES",
    "FROM duckdb_tables()",
    "FROM duckdb_columns()",
    "FROM duckdb_views()",
    "FROM privacy_budget()",
    "FROM privacy_ledger()",
    "FROM policies()",
    "FROM publications()",
    "FROM editions()",
    "FROM prepared()",
)


def injected(con: duckdb.DuckDBPyConnection, asked: PaidQuestion, _: object = None) -> pa.Table:
    """An answer that follows from the question's key and its form: no record is read."""
    noise = np.random.default_rng(int(asked.key[:12], 16))
    if isinstance(asked, FollowingQuestion):
        # It follows from what was injected before.
        return marginals.following(con, asked)
    if isinstance(asked, PreparationQuestion):
        return _measured(asked, noise)
    keys = forms.form(con, asked)
    if isinstance(asked, AggregatesQuestion):
        noisy = [noise.integers(*_range(one), (len(keys), _width(one))) for one, _ in asked.measures]
        return aggregates.answer(asked, keys, noisy)
    if isinstance(asked, KeysQuestion):
        values: Sequence[Any] = _TEXTS if asked.type == "VARCHAR" else _DAYS if asked.type == "DATE" else range(40)
        return pa.table({"k0": pa.array([one for one in values if noise.random() < 0.6])})
    assert isinstance(asked, GroupSizesQuestion)
    ranks = group_sizes.ranks_of(keys, len(asked.hierarchy))
    levels = []
    for level, rank in enumerate(ranks):
        groups = noise.integers(0, 9, (len(np.unique(rank)), asked.sizes))
        levels.append(group_sizes.level_rows(asked, keys, ranks, level, groups, groups, groups + 1))
    return pa.concat_tables(levels)


def _measured(asked: PreparationQuestion, noise: np.random.Generator) -> pa.Table:
    """Measurements of the form of a preparation."""
    sizes = [int(np.prod(asked.design.workload.shape(table))) for table in asked.design.measured]
    whole = [asked.design.workload.whole(table) for table in asked.design.measured]
    return pa.table(
        {
            "marginal": np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
            "cell": np.concatenate([np.arange(one, dtype=np.int64) for one in sizes]),
            "n": np.concatenate(
                [noise.integers(-5 * each, 50 * each, one) for one, each in zip(sizes, whole, strict=True)]
            ),
        }
    )


def _range(measure: Measure) -> tuple[int, int]:
    """Between which numbers the totals of a measure lie; of quantiles, the places among the steps."""
    if isinstance(measure, Quantiles):
        return 0, measure.number.steps + 1
    return (-5 * measure.whole, 50 * measure.whole) if isinstance(measure, Sums) else (-5, 50)


def _width(measure: Measure) -> int:
    """How many totals a measure has."""
    if isinstance(measure, Quantiles):
        return len(measure.at)
    return measure.degree + 1 + measure.missing if isinstance(measure, Sums) else 1


@contextmanager
def injecting(draw: Callable[..., pa.Table] = injected) -> Iterator[None]:
    """Answers are injected, and a recogniser's failure is raised."""
    before = mechanisms.draw, rule_context.STRICT
    mechanisms.draw, rule_context.STRICT = draw, True
    try:
        yield
    finally:
        mechanisms.draw, rule_context.STRICT = before


@dataclass(frozen=True)
class Sent:
    """A statement and the way it is sent. parameters: of a prepared one."""

    sql: str
    way: str = "execute"
    parameters: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.way}: {self.sql!r}" + (f" with {self.parameters!r}" if self.parameters else "")


@dataclass(frozen=True)
class Difference:
    """Where two databases can be told apart: what was sent, and what came back from each."""

    sent: Sent
    first: str
    second: str

    def __str__(self) -> str:
        at = next((at for at, (a, b) in enumerate(zip(self.first, self.second, strict=False)) if a != b), 0)
        begin = max(0, at - 120)
        return f"{self.sent}\n  {self.first[begin : at + 400]}\n  {self.second[begin : at + 400]}"


# --- what is observed -------------------------------------------------------------------------------------------------


def _execute(con: Analyst, sent: Sent) -> list[Any]:
    con.execute(sent.sql)
    return [con.description, con.fetchall(), con.rowcount]


def _sql(con: Analyst, sent: Sent) -> list[Any]:
    answer = con.sql(sent.sql)
    return [answer.columns, answer.types, answer.fetchall()]


def _shown(con: Analyst, sent: Sent) -> list[Any]:
    return [str(con.sql(sent.sql))]


def _arrow(con: Analyst, sent: Sent) -> list[Any]:
    found = con.sql(sent.sql).to_arrow_table()
    return [str(found.schema), found.to_pylist()]


def _pieces(con: Analyst, sent: Sent) -> list[Any]:
    con.execute(sent.sql)
    return [con.fetchone(), con.fetchmany(2), con.description, con.fetchall()]


def _parsed(con: Analyst, sent: Sent) -> list[Any]:
    found = []
    for one in con.extract_statements(sent.sql):
        con.execute(one)
        found.append(con.fetchall())
    return found


def _prepared(con: Analyst, sent: Sent) -> list[Any]:
    con.execute(sent.sql, list(sent.parameters))
    return [con.description, con.fetchall()]


def _prepared_sql(con: Analyst, sent: Sent) -> list[Any]:
    return [con.sql(sent.sql, params=list(sent.parameters)).fetchall()]


def _many(con: Analyst, sent: Sent) -> list[Any]:
    con.executemany(sent.sql, [list(sent.parameters) or [1]] * 2)
    return [con.fetchall()]


def _explained(con: Analyst, sent: Sent) -> list[Any]:
    found = con.explain(sent.sql)
    return [found.rows(), found.steps, found.sql]


def _explained_in_sql(con: Analyst, sent: Sent) -> list[Any]:
    text = sent.sql.replace("'", "''")
    return _execute(con, Sent(f"FROM explain_privacy('{text}')"))


def _other_cursor(con: Analyst, sent: Sent) -> list[Any]:
    with con.cursor() as other:
        return [*_execute(other, sent), repr(other.decision)]


def _transaction(con: Analyst, sent: Sent) -> list[Any]:
    con.begin()
    try:
        return [observe(con, Sent(sent.sql)), observe(con, Sent("SHOW TABLES"))]
    finally:
        # The error of a failed transaction is a thing that is seen, too.
        end = con.commit if len(sent.sql) % 2 else con.rollback
        try:
            end()
        except duckdb.Error:
            con.rollback()


WAYS: dict[str, Callable[[Analyst, Sent], list[Any]]] = {
    "execute": _execute,
    "sql": _sql,
    "shown": _shown,
    "arrow": _arrow,
    "pieces": _pieces,
    "parsed": _parsed,
    "prepared": _prepared,
    "prepared sql": _prepared_sql,
    "executemany": _many,
    "explain": _explained,
    "explain_privacy": _explained_in_sql,
    "cursor": _other_cursor,
    "transaction": _transaction,
}


# What DuckDB draws for each run of its own: of an analyst's temporary table anybody may sample.
_BY_CHANCE = re.compile(r"\b(random|uuid|gen_random_uuid)\s*\(|\b(USING|TABLE)\s*SAMPLE\b(?!.*REPEATABLE)", re.I | re.S)


def is_by_chance(sql: str) -> bool:
    """Whether the rows of a statement may differ from one run to the next on the same records."""
    return _BY_CHANCE.search(sql) is not None


def _reads_no_answer(decision: Decision | None) -> bool:
    """Whether a statement runs as it is, over what an analyst may read."""
    return decision is not None and not decision.answers and all(one.verdict == Verdict.RUNS for one in decision.steps)


def observe(con: Analyst, sent: Sent) -> str:
    """All that the sender of a statement observes, as text; of one that samples what is open, not the rows."""
    try:
        seen = WAYS[sent.way](con, sent)
        if is_by_chance(sent.sql) and _reads_no_answer(con.decision):
            seen = ["rows by chance"]
    except Exception as error:
        seen = ["error", *_error(error)]
    decision = con.decision
    seen.append(None if decision is None else [decision.sql, decision.steps, decision.calls])
    return _CLOCK.sub("<time>", repr(seen))


def _error(error: BaseException | None) -> list[str]:
    """An error, with what it came from."""
    if error is None:
        return []
    told = [type(error).__name__, str(error), repr(error.args)]
    return [*told, *_error(error.__cause__), *_error(error.__context__)]


def standing(con: Analyst) -> list[tuple[Sent, str]]:
    """The catalog, budgets and the ledger as an analyst sees them, and the ledger as it is stored."""
    seen = [(Sent(one), observe(con, Sent(one))) for one in _SEEN]
    with con._con.cursor() as raw:
        for one in (
            "SELECT * EXCLUDE (recorded_at) FROM duckanon.ledger ORDER BY ALL",
            "FROM duckanon.answers ORDER BY 1",
        ):
            text = _CLOCK.sub("<time>", repr(raw.execute(one).fetchall()))
            seen.append((Sent(one, "raw"), _FINGERPRINT.sub("<records>", text)))
        stored = raw.execute(
            "SELECT table_name, column_count FROM duckdb_tables() WHERE schema_name = 'duckanon' ORDER BY ALL"
        ).fetchall()
        seen.append((Sent("tables of the schema duckanon", "raw"), repr(stored)))
    return seen


# --- what is compared -------------------------------------------------------------------------------------------------


@dataclass
class Comparison:
    """Sends the same to both databases, and notes what differs. ran: how many statements were not refused.

    unexpected: errors that are neither duckanon's nor DuckDB's.
    """

    first: Analyst
    second: Analyst
    sent: int = 0
    ran: int = 0
    differences: list[Difference] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)

    def send(self, sent: Sent) -> bool:
        """Whether nothing differs."""
        one, other = observe(self.first, sent), observe(self.second, sent)
        self.sent += 1
        self.ran += not one.startswith("['error'")
        self._expected(sent, one)
        return self._equal(sent, one, other)

    def look(self) -> bool:
        """Whether the catalog, budgets and the ledgers are equal."""
        pairs = zip(standing(self.first), standing(self.second), strict=True)
        return not [sent for (sent, one), (_, other) in pairs if not self._equal(sent, one, other)]

    def _equal(self, sent: Sent, one: str, other: str) -> bool:
        if one != other:
            self.differences.append(Difference(sent, one, other))
        return one == other

    def _expected(self, sent: Sent, seen: str) -> None:
        if seen.startswith("['error'"):
            name = seen.split("'")[3]
            if name not in _EXPECTED and not hasattr(duckdb, name):
                self.unexpected.append(f"{sent}\n  {seen[:400]}")


_EXPECTED = {"UnsupportedQuery", "PolicyRefusal", "BudgetExhausted", "InvalidInput", "NotAvailable"}
