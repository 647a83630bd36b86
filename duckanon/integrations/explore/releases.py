"""A release as a plan that a steward confirms before it runs, once and as it was shown."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from duckanon import randomised_response
from duckanon.accounting import written as exactly
from duckanon.catalog.names import identifier, literal
from duckanon.errors import InvalidInput
from duckanon.integrations.calls import arguments
from duckanon.integrations.explore.catalog import Catalog, written
from duckanon.integrations.explore.jobs import Running
from duckanon.integrations.explore.release_kinds import Copy, Kind
from duckanon.integrations.explore.release_texts import command, dbt_model, script
from duckanon.integrations.explore.source import Source

if TYPE_CHECKING:
    from duckanon.connection import Connection

# How long a plan may wait for its confirmation, in seconds.
_PATIENCE = 600


@dataclass(frozen=True)
class Plan:
    """A release that could be made now.

    target: the table or file that it makes. epsilon, left, after: what it costs, and what the population has before and
    after it, exactly, as text; None without a cost or a budget. publishes: whether analysts will read it. sql: the
    whole way as a script. facts: of a copy, what is to be known before it is confirmed.
    """

    kind: Kind
    source: str
    target: str
    epsilon: str | None
    left: str | None
    after: str | None
    publishes: bool
    create: str
    comment: str | None
    publish: str | None
    dbt: str
    command: str
    sql: str
    facts: dict[str, object] | None = None
    nonce: str = ""
    made_at: float = 0.0

    def told(self) -> dict[str, object]:
        """The plan for the page."""
        shown = ("source", "target", "epsilon", "left", "after", "publishes", "dbt", "command", "sql", "facts", "nonce")
        return {name: getattr(self, name) for name in shown}


def planned(kind: Kind, source: Source, catalog: Catalog, run: Running) -> Plan:
    """The plan of a release. Raises InvalidInput if the budget does not suffice."""
    table = kind.table
    policy = next((record for record in run.records("FROM policies()") if record["tbl"] == table.label), None)
    left, after = _left(kind, run, policy["population"] if policy else None)
    name = catalog.free(table.schema, f"{table.name}_{kind.suffix}")
    target = written(name, catalog.reserved)
    target = target if table.schema == "main" else f"{written(table.schema, catalog.reserved)}.{target}"
    published = kind.published() if policy and source.is_database else None
    publish = None
    if published is not None:
        publish = f"SELECT publish({arguments(target, of=table.sql, **published)})"
    file = str(source.free_file(kind.suffix)) if not source.is_database else f"{name}.parquet"
    create = f"CREATE TABLE {target} AS\n{kind.query()}"
    # The approval page shows by which call a table was made.
    call = kind.query().replace("\n  ", " ").replace("\n", " ")
    comment = f"COMMENT ON TABLE {target} IS {literal(call)}" if source.is_database and kind.is_call else None
    statements = [text for text in (create, comment, publish) if text]
    return Plan(
        kind=kind,
        source=table.sql if source.is_database else str(source.path.name),
        target=target if source.is_database else file,
        epsilon=exactly(kind.epsilon) if kind.epsilon is not None else None,
        left=left,
        after=after,
        publishes=publish is not None,
        create=create,
        comment=comment,
        publish=publish,
        dbt=dbt_model(kind),
        command=command(kind, source, file, statements),
        sql=_script(kind, source, run, create, file) if not source.is_database else ";\n\n".join(statements) + ";",
        facts=kind.facts(run.con) if isinstance(kind, Copy) else None,
    )


def _script(kind: Kind, source: Source, run: Running, create: str, file: str) -> str:
    """The SQL of a release of a data file. Its form follows from an empty release, as DuckDB describes it."""
    name = create.partition("\n")[0].removeprefix("CREATE TABLE ").removesuffix(" AS")
    described = run.records(f"DESCRIBE {kind.query()}")
    columns = ", ".join(f"NULL::{one['column_type']} AS {identifier(one['column_name'])}" for one in described)
    run.rows(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {columns} WHERE false")
    try:
        export = replace(source.file, path=Path(file)).export(run.con, name)
    finally:
        run.rows(f"DROP TABLE temp.{name}")
    return script(source, create, export)


def _left(kind: Kind, run: Running, population: str | None) -> tuple[str | None, str | None]:
    """What the population's budget has before and after the release."""
    records = [record for record in run.records("FROM privacy_budget()") if record["population"] == population]
    if not records or kind.epsilon is None:
        return None, None
    left = Fraction(records[0]["remaining_exact"])
    order = records[0]["order_exact"]
    # In a population with a delta the budget is one of Rényi divergences.
    price = kind.epsilon if order is None else randomised_response.price(kind.epsilon, Fraction(order))
    if price > left:
        said = f"epsilon {exactly(price)}" if order is None else f"{exactly(price)} (Rényi divergence of order {order})"
        raise InvalidInput(
            f"This release costs {said}, and {exactly(left)} is left of the budget: choose a smaller epsilon."
        )
    return exactly(left), exactly(left - price)


class Plans:
    """The one plan that can be confirmed, by its nonce, once and for some minutes."""

    def __init__(self) -> None:
        self._plan: Plan | None = None

    def offer(self, plan: Plan) -> Plan:
        """The plan with a nonce. Whatever was offered before cannot be confirmed any more."""
        self._plan = replace(plan, nonce=secrets.token_urlsafe(24), made_at=monotonic())
        return self._plan

    def take(self, nonce: object) -> Plan:
        """The plan that was offered with this nonce. Raises InvalidInput if it is another one, used or too old."""
        plan, self._plan = self._plan, None
        if (
            plan is None
            or not isinstance(nonce, str)
            or not secrets.compare_digest(plan.nonce.encode(), nonce.encode())
            or monotonic() - plan.made_at > _PATIENCE
        ):
            raise InvalidInput("This confirmation is not valid any more: look at the release again, then confirm it.")
        return plan


def make(plan: Plan, source: Source) -> dict[str, object]:
    """Make the release: a new table, published if the plan says so, or a new file.

    A table whose publication is refused is dropped again, and the error says why. Raises duckdb.Error, InvalidInput or
    OSError.
    """
    with source.writing() as con:
        if not source.is_database:
            return _file(plan, source, con)
        con.execute(plan.create).fetchall()
        if plan.comment:
            con.execute(plan.comment).fetchall()
        said = None
        try:
            if plan.publish:
                ((said,),) = con.execute(plan.publish).fetchall()
        except BaseException:
            con.execute(f"DROP TABLE {plan.target}").fetchall()
            raise
        ((rows,),) = con.execute(f"SELECT count(*) FROM {plan.target}").fetchall()  # noqa: S608 - a name of our own
    return {"target": plan.target, "rows": rows, "said": said}


def _file(plan: Plan, source: Source, con: Connection) -> dict[str, object]:
    path = Path(plan.target)
    if path.exists():
        raise InvalidInput(f"{path.name} exists already: look at the release again, for another name.")
    table = '"duckanon.release"'
    con.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {plan.kind.query()}").fetchall()
    replace(source.file, path=path).write(con, table)
    ((rows,),) = con.execute(f"SELECT count(*) FROM {table}").fetchall()  # noqa: S608 - our own name
    return {"target": plan.target, "rows": rows, "said": None}
