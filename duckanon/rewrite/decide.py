"""From an admitted statement to a decision: bind its names, apply the rules, and write the text that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from sqlglot import exp

from duckanon.catalog.names import TableName, fold, literal, quoted
from duckanon.catalog.snapshot import Catalog, Home, View
from duckanon.errors import UnsupportedQuery
from duckanon.rewrite import metadata
from duckanon.rewrite.admit import Kind, Statement, admit
from duckanon.rewrite.algebra.constants import is_name_of_clock
from duckanon.rewrite.algebra.moments import Now, zone_of
from duckanon.rewrite.algebra.nodes import Node, kinds_of, nodes_of
from duckanon.rewrite.bind import Bound, bind, named
from duckanon.rewrite.calls import Call, read
from duckanon.rewrite.decision import Decision, Step, Verdict
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.divisions import DIVISIONS, without_failing
from duckanon.rewrite.empty import LEAVES_OUT, empty, is_empty
from duckanon.rewrite.normalize.desugar import QUANTILES, STAGES, quantile_lists, staging
from duckanon.rewrite.normalize.moments import PAIRS, pairs_of_numbers
from duckanon.rewrite.normalize.postgresql import CONSTANTS, as_duckdb
from duckanon.rewrite.normalize.written_out import LISTS, written_out
from duckanon.rewrite.parameters import Parameters, filled
from duckanon.rewrite.quote import let_quote
from duckanon.rewrite.rule_context import Releases, RuleContext
from duckanon.rewrite.rules import RULES

# What runs for a statement that changes nothing in DuckDB.
_NOTHING = "SELECT 'done' AS made WHERE false"
_PREFIX = {Kind.DESCRIBE: "DESCRIBE ", Kind.SUMMARIZE: "SUMMARIZE ", Kind.EXPLAIN: "EXPLAIN "}


def decide(
    statement: Statement,
    catalog: Catalog,
    functions: Mapping[str, Sequence[str]],
    releases: Releases,
    today: date,
    parameters: Parameters = None,
) -> Decision:
    """Decide about an admitted statement, from its text and from public facts alone.

    functions: duckanon's own table functions and their parameters, in order. releases: those that are available.
    today: the value of `current_date` in questions about protected tables, with the moment and the zone of `now()` if
    it is a Now. parameters: the values of the statement's
    parameters, which are written out where it uses a protected table. Raises UnsupportedQuery for a statement that
    cannot be analysed, and Refused for one that a policy does not allow.
    """
    if statement.kind is Kind.TABLES:
        listed = metadata.LISTS[statement.listed](catalog).sql(DIALECT)
        return Decision([Step("list of tables", None, Verdict.RUNS, "Names of what is to be seen.")], listed)
    if statement.kind is Kind.TRANSACTION:
        step = Step("transaction", None, Verdict.RUNS, "What is charged inside stays charged.")
        return Decision([step], None, target=str(statement.tree.sql(DIALECT, comments=False)))
    if statement.kind in (Kind.VIEW, Kind.DROP_VIEW):
        return _view(statement, catalog, frozenset(functions))
    if statement.kind is Kind.DROP:
        step = Step("temporary table", None, Verdict.RUNS, _OWN)
        return Decision([step], None, target=_target(statement, catalog))
    query: Node = statement.query
    bound = bind(query, catalog, frozenset(functions), statement.text)
    kinds = _written_plainly(bound, catalog)
    calls = [_call(name, node, functions[name], catalog, home) for name, node, home in bound.calls]
    if bound.protected or any(name in catalog.protected for call in calls for name in call.tables.values()):
        if bound.has_parameters:
            filled_statement = replace(statement, query=filled(query, parameters))
            return replace(decide(filled_statement, catalog, functions, releases, today), filled=True)
        sample = bound.query.find(exp.TableSample) if exp.TableSample in kinds else None
        if sample is not None:
            sentence = "Samples are of open tables and releases: a protected table answers as a whole."
            raise UnsupportedQuery(bound.not_answered(sample, sentence))
        if statement.kind is Kind.EXPLAIN:
            if bound.opened:
                raise UnsupportedQuery(_NO_PLAN)
            # With full names and without views: explain_privacy does not know the analyst's own.
            query_sql = str(bound.query.sql(DIALECT, comments=False, normalize_functions=False))
            return decide(admit(f"FROM explain_privacy({literal(query_sql)})"), catalog, functions, releases, today)
    return _answered(statement, RuleContext(bound, catalog, releases, today, calls, list(bound.protected)), kinds)


# What writes a query over protected tables more plainly, in order: of which nodes each is, and what it does.
_PASSES: tuple[tuple[Sequence[Any], Callable[[Node, Catalog], None]], ...] = (
    (LISTS, lambda query, _: written_out(query)),
    (QUANTILES, lambda query, _: quantile_lists(query)),
    (PAIRS, lambda query, _: pairs_of_numbers(query)),
    (STAGES, lambda query, catalog: _staged(query, catalog)),
)


def _written_plainly(bound: Bound, catalog: Catalog) -> set[Any]:
    """Write what has several spellings in one. Only what has a node in the query is run: all else would change nothing.

    Returns the classes of the nodes that the query has then. Raises UnsupportedQuery.
    """
    kinds = kinds_of(bound.query)
    if not kinds.isdisjoint(CONSTANTS):
        try:
            as_duckdb(bound.query, catalog.macros)
        except UnsupportedQuery as no:
            let_quote(no, bound.quote(no.about))
            raise
        kinds = kinds_of(bound.query)
    if bound.protected:
        for about, write in _PASSES:
            if not kinds.isdisjoint(about):
                write(bound.query, catalog)
                kinds = kinds_of(bound.query)
        read = [(named(node), node) for node in nodes_of(bound.query, exp.Table)]
        bound.protected = [(name, node) for name, node in read if name in catalog.protected]
    return kinds


def _staged(query: Node, catalog: Catalog) -> None:
    units = {
        fold(privacy_unit)
        for protected in catalog.protected.values()
        if (privacy_unit := protected.policy.privacy_unit) is not None
    }
    staging(query, lambda node: named(node) in catalog.protected, units)


def _call(name: str, node: Node, parameters: Sequence[str], catalog: Catalog, home: Home | None) -> Call:
    """A call of duckanon's. In a view or macro an error says nothing about it."""
    try:
        return read(name, node, parameters, catalog, home)
    except UnsupportedQuery:
        if home is None:
            raise
    raise UnsupportedQuery(
        "A view or macro of the statement has a call that cannot be made for an analyst: ask the steward for a release."
    )


def _answered(statement: Statement, context: RuleContext, kinds: set[Any]) -> Decision:
    """The decision about a query with resolved names, and about what stands around it. kinds: of its nodes."""
    bound, catalog, target = context.bound, context.catalog, _PREFIX.get(statement.kind)
    if statement.kind in (Kind.CREATE, Kind.INSERT):
        target = _target(statement, catalog)
    if statement.kind is Kind.EXPLAIN:
        _plain(bound)
        target = "EXPLAIN (FORMAT JSON) " if statement.form else target
    may_be_empty = not kinds.isdisjoint(LEAVES_OUT)
    if bound.protected and (statement.kind is Kind.DESCRIBE or (may_be_empty and is_empty(bound.query))):
        about = context.label(bound.protected[0][0])
        context.steps.append(Step("columns", about, Verdict.RUNS, "No row is asked for; names and types are public."))
        empty(bound, catalog)
        context.reads = []
    has_clock = bool(bound.protected) and not kinds.isdisjoint(_CLOCKS)
    asks_now = has_clock and any(map(_is_now, nodes_of(bound.query, *_CLOCKS)))
    if bound.protected:
        context.recognise()
    for rule in RULES:
        if not context.calls and not context.reads:
            # Each rule is about what is open, and nothing is.
            break
        rule(context)
    if context.answers and not kinds_of(context.bound.query).isdisjoint(DIVISIONS):
        without_failing(context.bound.query)
    rewritten = str(context.bound.query.sql(DIALECT, comments=False, normalize_functions=False))
    if asks_now:
        sentence = _about_now(context.today)
        context.steps = [
            step if step.epsilon is None else replace(step, reason=f"{step.reason} {sentence}", about_now=sentence)
            for step in context.steps
        ]
    steps = context.steps or [Step("query", None, Verdict.RUNS, "It touches no protected table.")]
    answers = context.answers
    if bound.opened:
        answers = [replace(answer, definitions=tuple(dict.fromkeys(bound.opened))) for answer in answers]
    return Decision(
        steps,
        rewritten,
        context.approved,
        answers,
        target,
        frozenset(bound.tables),
        has_definitions=bool(bound.opened),
        readings=bound.readings,
    )


_CLOCKS = (exp.CurrentTimestamp, exp.Localtimestamp, exp.Anonymous)


def _is_now(node: Node) -> bool:
    return not isinstance(node, exp.Anonymous) or is_name_of_clock(fold(node.name))


def _about_now(today: date) -> str:
    """What is said of the time in a question about a protected table."""
    zone = zone_of(today)
    sentence = f"now() is {today.isoformat()} 00:00{'' if zone is None else f' {zone}'} in its conditions all day"
    if isinstance(today, Now) and today.is_read:
        return f"{sentence}, and what is left of it by date_trunc and the like: then it is another question."
    return f"{sentence}, so asking again today is free."


_OWN = "It is this connection's own."
_NO_PLAN = (
    "EXPLAIN is for queries of open tables, publications and temporary tables themselves: the plan of a view or macro "
    "tells what it says, and of tables behind it."
)


def _plain(bound: Bound) -> None:
    """Raises UnsupportedQuery unless a query reads tables that may be seen themselves, and calls nothing of duckanon's.

    A plan has the conditions of the views and macros in it, and numbers and bounds of the tables that it reads: of a
    closed table behind an open view, too.
    """
    if bound.calls or bound.opened:
        raise UnsupportedQuery(_NO_PLAN)


def _view(statement: Statement, catalog: Catalog, functions: frozenset[str]) -> Decision:
    """A temporary view of the analyst's own: the guard keeps its text, and DuckDB does not know it."""
    tree = statement.tree
    node = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    node = node if isinstance(node, exp.Table) else (tree.args.get("tables") or [node])[0]
    name = TableName("temp", "main", _own_name(node))
    held, exists = catalog.views.get(name), tree.args.get("exists")
    step = Step("temporary view", None, Verdict.RUNS, _OWN)
    if statement.kind is Kind.DROP_VIEW:
        if held is None and not exists:
            raise UnsupportedQuery("An analyst drops temporary views only, and there is none of that name.")
        return Decision([step], None, target=_NOTHING, view=(name, None))
    if name in catalog.tables or (held is not None and not exists and not tree.args.get("replace")):
        raise UnsupportedQuery("There is a temporary table or view of that name: drop it, or choose another name.")
    if held is not None and exists:
        return Decision([step], None, target=_NOTHING)
    query: Node = statement.query
    bound = bind(query, catalog, functions)
    if bound.has_parameters:
        raise UnsupportedQuery("A view has no parameters: write the values out.")
    columns = (
        tuple(expression.name for expression in tree.this.expressions) if isinstance(tree.this, exp.Schema) else ()
    )
    listed = f" ({', '.join(quoted([column]) for column in columns)})" if columns else ""
    definition = f"CREATE VIEW {quoted([node.name])}{listed} AS {query.sql('duckdb', comments=False)}"
    return Decision([step], None, target=_NOTHING, view=(name, View(("temp", "main", node.name), definition, own=True)))


def _own_name(node: Node) -> str:
    """The folded name of a temporary table or view that a statement makes, changes or drops."""
    written = named(node)
    elsewhere = written.schema not in ("", "temp", "main") or written.catalog not in ("", "temp")
    if elsewhere or (written.schema == "main" and not written.catalog):
        raise UnsupportedQuery("An analyst writes to temporary tables only: leave catalog and schema out of the name.")
    if not isinstance(node.this, exp.Identifier):
        raise UnsupportedQuery("A temporary table needs a plain name.")
    return fold(node.name)


def _target(statement: Statement, catalog: Catalog) -> str:
    """The text before the query of a CREATE or INSERT, or a whole DROP, written anew for a temporary table."""
    tree = statement.tree
    node = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    node = node if isinstance(node, exp.Table) else (tree.args.get("tables") or [node])[0]
    name = TableName("temp", "main", _own_name(node))
    temp_name = quoted(("temp", "main", node.name))
    exists = "IF EXISTS " if tree.args.get("exists") else ""
    if statement.kind is Kind.CREATE:
        if name in catalog.views:
            raise UnsupportedQuery("There is a temporary view of that name: drop it, or choose another name.")
        anew = "OR REPLACE " if tree.args.get("replace") else ""
        return f"CREATE {anew}TEMP TABLE {'IF NOT EXISTS ' if exists else ''}{temp_name} AS "
    own = catalog.tables.get(name)
    if own is None and not exists:
        raise UnsupportedQuery("An analyst writes to temporary tables only, and there is none of that name.")
    if statement.kind is Kind.DROP:
        return f"DROP TABLE {exists}{temp_name}"
    columns = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
    listed = ", ".join('"' + column.name.replace('"', '""') + '"' for column in columns)
    by_name = "BY NAME " if tree.args.get("by_name") else ""
    return f"INSERT INTO {temp_name} {f'({listed}) ' if listed else ''}{by_name}"
