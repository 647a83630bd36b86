"""From an admitted statement to a decision: bind its names, apply the rules, and write the text that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from sqlglot import exp

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.catalog.snapshot import Catalog
from duckanon.errors import UnsupportedQuery
from duckanon.rewrite import metadata
from duckanon.rewrite.admit import Kind, Statement
from duckanon.rewrite.bind import bind, named
from duckanon.rewrite.calls import read
from duckanon.rewrite.decision import Decision, Step, Verdict
from duckanon.rewrite.normalize import staging
from duckanon.rewrite.rule_context import Releases, RuleContext
from duckanon.rewrite.rules import RULES


def decide(
    statement: Statement, catalog: Catalog, functions: Mapping[str, Sequence[str]], releases: Releases, today: date
) -> Decision:
    """Decide about an admitted statement, from its text and from public facts alone.

    functions: duckanon's own table functions and their parameters, in order. releases: those that are available.
    today: the value of `current_date` in questions about protected tables. Raises UnsupportedQuery for a statement that
    cannot be analysed, and Refused for one that a policy does not allow.
    """
    if statement.kind is Kind.TABLES:
        listed = metadata.names(catalog).sql("duckdb")
        return Decision([Step("list of tables", None, Verdict.RUNS, "Names of what is to be seen.")], listed)
    if statement.kind is Kind.TRANSACTION:
        step = Step("transaction", None, Verdict.RUNS, "What is charged inside stays charged.")
        return Decision([step], None, target=str(statement.tree.sql("duckdb", comments=False)))
    target = None if statement.kind is Kind.QUERY else _target(statement, catalog)
    if statement.kind is Kind.DROP:
        return Decision(
            [Step("temporary table", None, Verdict.RUNS, "It is this connection's own.")], None, target=target
        )
    bound = bind(statement.query, catalog, frozenset(functions))
    if bound.protected:
        staging.move(bound.query, lambda node: named(node) in catalog.protected)
        bound.protected = [
            (named(one), one) for one in bound.query.find_all(exp.Table) if named(one) in catalog.protected
        ]
    calls = [read(name, node, functions[name], catalog) for name, node in bound.calls]
    context = RuleContext(bound, catalog, releases, today, calls, list(bound.protected))
    if bound.protected:
        context.findings = context.recognised(bound.query)
    touches = bool(bound.protected) or any(name in catalog.protected for one in calls for name in one.tables.values())
    if touches and bound.has_parameters:
        raise UnsupportedQuery(
            "Parameters are not filled into a statement about a protected table: write the values out."
        )
    for rule in RULES:
        rule(context)
    text = str(context.bound.query.sql("duckdb", comments=False, normalize_functions=False))
    steps = context.steps or [Step("query", None, Verdict.RUNS, "It touches no protected table.")]
    return Decision(steps, text, context.approved, context.answers, target, frozenset(bound.tables))


def _target(statement: Statement, catalog: Catalog) -> str:
    """The text before the query of a CREATE or INSERT, or a whole DROP, written anew for a temporary table."""
    tree = statement.tree
    node = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    node = node if isinstance(node, exp.Table) else (tree.args.get("tables") or [node])[0]
    written = named(node)
    if written.schema not in ("", "temp", "main") or written.catalog not in ("", "temp"):
        raise UnsupportedQuery("An analyst writes to temporary tables only: leave catalog and schema out of the name.")
    if written.schema == "main" and not written.catalog:
        raise UnsupportedQuery("An analyst writes to temporary tables only: leave catalog and schema out of the name.")
    if not isinstance(node.this, exp.Identifier):
        raise UnsupportedQuery("A temporary table needs a plain name.")
    mine = quoted(("temp", "main", node.name))
    exists = "IF EXISTS " if tree.args.get("exists") else ""
    if statement.kind is Kind.CREATE:
        replace = "OR REPLACE " if tree.args.get("replace") else ""
        return f"CREATE {replace}TEMP TABLE {'IF NOT EXISTS ' if exists else ''}{mine} AS "
    own = catalog.tables.get(TableName("temp", "main", fold(node.name)))
    if own is None and not exists:
        raise UnsupportedQuery("An analyst writes to temporary tables only, and there is none of that name.")
    if statement.kind is Kind.DROP:
        return f"DROP TABLE {exists}{mine}"
    columns = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
    listed = ", ".join('"' + one.name.replace('"', '""') + '"' for one in columns)
    by_name = "BY NAME " if tree.args.get("by_name") else ""
    return f"INSERT INTO {mine} {f'({listed}) ' if listed else ''}{by_name}"
