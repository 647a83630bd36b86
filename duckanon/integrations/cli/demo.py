"""`duckanon demo`: anonymises a real survey, and shows records, risk and loss before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from duckanon.catalog.names import literal
from duckanon.integrations.calls import call
from duckanon.integrations.cli.risk_tables import before_and_after
from duckanon.integrations.results import fetch, figure, text
from duckanon.integrations.terminal.output import answers
from duckanon.integrations.terminal.session import Session
from duckanon.specification import sql_root

if TYPE_CHECKING:
    from duckanon.connection import Connection

_QI = ["age", "education", "income"]
_SETS = ["education"]
_RELEASED = ["age_lo", "age_hi", "education_set", "income_lo", "income_hi"]
_SENSITIVE = ["vote"]
_OPENING = (
    "944 respondents of the 1996 American National Election Study. Age, education and income could tell who answered, "
    "so they are released as intervals and sets. The town is left out. The vote stays as it was."
)
_NEXT = "Next: duckanon sql opens a console. Paste these lines there, or use a table of your own."
_FIGURES = ("records", "classes", "k", "singletons", "max_risk", "avg_risk", "l", "t")

# A class whose cell holds as few records of other classes as there can be: for most k none, and then the records shown
# before are those shown after.
_ONE_CLASS = """
WITH cells AS (
  SELECT class_id, age_lo, age_hi, education_set, income_lo, income_hi, count(*) AS size FROM released GROUP BY ALL
),
met AS (
  SELECT cells.*, count(*) AS inside
  FROM cells JOIN voters ON age BETWEEN age_lo AND age_hi AND income BETWEEN income_lo AND income_hi
    AND list_contains(education_set, education)
  GROUP BY ALL
)
SELECT * EXCLUDE (size, inside) FROM met
ORDER BY inside - size, len(education_set) = 1, age_hi = age_lo, income_hi = income_lo, size, class_id LIMIT 1
"""


def statements(k: int) -> list[str]:
    """What the demo runs, ready to be run again."""
    return [
        f"CREATE OR REPLACE TABLE voters AS FROM {literal(str(sql_root() / 'examples' / 'voters.csv'))}",
        "CREATE OR REPLACE TABLE released AS "
        + call("k_anonymize", "voters", _QI, k=k, categorical=_SETS, drop=["town"]),
        call("k_report", "voters", _QI, sensitive=_SENSITIVE),
        call("k_report", "released", _RELEASED, sensitive=_SENSITIVE),
        call("k_compare", "voters", _QI, k=k, categorical=_SETS),
    ]


def demo(k: int) -> None:
    """Run the demo and print it. Raises duckdb.Error if k does not suit the records."""
    script = statements(k)
    with Session(role="steward") as session:
        *_, before, after, costs = session.run(
            "Anonymising 944 records", lambda con: [_first_row(con, statement) for statement in script]
        )
        rows_before, rows_after = session.run("Choosing records to show", _same_records)
    console = answers()
    console.print(_OPENING)
    console.print()
    console.print(_records("Before: records that fit into one class", rows_before))
    console.print(_records("After: records of that class", rows_after))
    console.print(before_and_after(before, after, _FIGURES))
    console.print()
    console.print(" ".join(_remarks(after, costs)))
    console.print("\nThis is the SQL that was run:\n", style="bold")
    for statement in script:
        console.print(f"{statement};", soft_wrap=True)
    console.print()
    console.print(_NEXT, style="bold")


def _first_row(con: Connection, statement: str) -> dict[str, Any]:
    return next(iter(fetch(con.execute(statement)).records()), {})


def _same_records(con: Connection) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Records that fit into a class, as they were, and records of that class, as they are released; in one order."""
    class_id, *cell = con.execute(_ONE_CLASS).fetchall()[0]
    before = con.execute(
        "SELECT age, education, income, town, tv_news, vote FROM voters WHERE age BETWEEN $1 AND $2 "
        "AND list_contains($3, education) AND income BETWEEN $4 AND $5 ORDER BY vote, tv_news LIMIT 6",
        cell,
    ).fetchall()
    after = con.execute(
        "SELECT tv_news, vote FROM released WHERE class_id = $1 ORDER BY vote, tv_news LIMIT 6", [class_id]
    ).fetchall()
    age_lo, age_hi, education, income_lo, income_hi = cell
    released = (_interval(age_lo, age_hi), ", ".join(education), _interval(income_lo, income_hi))
    names = ("age", "education", "income", "town", "tv_news", "vote")
    return (
        [dict(zip(names, map(text, row), strict=True)) for row in before],
        [dict(zip((*_QI, "tv_news", "vote"), (*released, *map(text, row)), strict=True)) for row in after],
    )


def _interval(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low}-{high}"


def _records(title: str, rows: Sequence[Mapping[str, str]]) -> Table:
    table = Table(box=box.ROUNDED, title=title, title_justify="left", title_style="bold")
    for name in rows[0]:
        table.add_column(name, style="cyan" if name in _QI else "")
    for row in rows:
        table.add_row(*map(Text, row.values()))
    return table


def _remarks(after: Mapping[str, Any], costs: Mapping[str, Any]) -> Iterator[str]:
    """Sentences about the figures."""
    loss, bound = (figure(name, costs[name]) for name in ("information_loss", "lower_bound"))
    yield f"Information lost: {loss} (0 % is untouched, 100 % is nothing left)."
    if costs["lower_bound"] is not None:
        yield f"No release with this k can lose less than {bound}."
    if after["l"] == 1:
        yield "l is 1: in some class all voted alike, and k alone does not hide that; a larger k may."
