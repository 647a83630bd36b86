"""Lists what SQL reads from tables of people, without running it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from sqlglot import exp

from duckanon.catalog.names import literal
from duckanon.errors import InvalidInput
from duckanon.integrations.audit.corpus import Corpus
from duckanon.integrations.calls import call
from duckanon.rewrite.algebra.expressions import Aggregate, Column, Expr
from duckanon.rewrite.recognize import (
    Conditional,
    Counts,
    Finding,
    GroupSizes,
    RecordReads,
    Schema,
    Stored,
    TableName,
    Unknown,
    View,
    findings_in,
    fold,
    summary,
)
from duckanon.rewrite.statements import Statement, statements
from duckanon.specification import functions

# Functions whose results may be released. metric_perturb is none: its result has the table's other columns unchanged.
RELEASES = frozenset(name for name, function in functions().items() if function.release)


class Verdict(StrEnum):
    """unsafe: it returns exact figures or values. check: it depends on the data. unread: it cannot be parsed."""

    UNSAFE = "unsafe"
    CHECK = "check"
    UNREAD = "unread"


@dataclass(frozen=True)
class AuditFinding:
    """One line of the report. object: the view or model that holds the SQL, if any. found, advice: sentences."""

    path: Path
    line: int
    object: str
    kind: str
    table: str
    verdict: Verdict
    found: str
    advice: str


def audit(corpus: Corpus, tables: Sequence[str] = ()) -> list[AuditFinding]:
    """Everything that the corpus reads from the tables, in the order of files and lines.

    tables: names to watch, as `persons` or `lake.main.persons`. If none is given and the corpus declares none, then
    group-size queries and shares of every table are listed, and nothing else. Raises InvalidInput for a malformed name.
    """
    watched = frozenset(map(_named, tables)) | corpus.protected
    read = [(script, list(statements(script.text))) for script in corpus.scripts]
    known = _defined(
        corpus.schema, [statement for script, found in read if script.defines is None for statement in found], watched
    )
    schema = replace(known, protected=watched or None, releases=RELEASES)
    listed: list[AuditFinding] = []
    for script, found in read:
        if script.flaw:
            listed.append(
                AuditFinding(
                    script.path,
                    1,
                    "",
                    "unknown",
                    "",
                    Verdict.UNREAD,
                    script.flaw,
                    "Save it as UTF-8, and audit it again.",
                )
            )
        home = schema if script.defines is None else replace(schema, home=script.defines._replace(object=""))
        for statement in found:
            audit_findings = [
                replace(finding, path=script.path, object=script.object) for finding in _statement(statement, home)
            ]
            listed += [_allowed(finding) if finding.kind in script.allow else finding for finding in audit_findings]
    return sorted(listed, key=lambda item: (str(item.path), item.line))


def unmentioned(corpus: Corpus, tables: Sequence[str]) -> list[str]:
    """Those of the names to watch that nothing in the corpus mentions: misspelt ones, perhaps."""
    known = {*corpus.schema.tables, *corpus.schema.views}
    found = [statement for script in corpus.scripts for statement in statements(script.text)]

    def is_mentioned(name: TableName) -> bool:
        return any(name.may_be(table_name) for table_name in known) or any(
            statement.mentions(name.object) for statement in found
        )

    return [table for table in tables if not is_mentioned(_named(table))]


def _allowed(finding: AuditFinding) -> AuditFinding:
    return replace(finding, verdict=Verdict.CHECK, advice="The model's meta allows it: look at what it gives away.")


def _named(text: str) -> TableName:
    try:
        return TableName.of(text)
    except ValueError:
        raise InvalidInput(f"--table {text}: give a name such as persons, main.persons or lake.main.persons.") from None


def _defined(schema: Schema, found: Sequence[Statement], watched: frozenset[TableName]) -> Schema:
    """The schema, with the tables, views and macros that the scripts make."""
    tables, views, macros = dict(schema.tables), dict(schema.views), dict(schema.macros)
    for statement in found:
        tree = statement.tree
        if not isinstance(tree, exp.Create):
            continue
        kind, target = str(tree.args.get("kind") or "").upper(), tree.this
        if kind in ("FUNCTION", "MACRO"):
            named = target.find(exp.Table) if target is not None else None
            # Where sqlglot does not parse the name, it is the word after MACRO: CREATE [OR REPLACE] [TEMP] MACRO name.
            words = [word for word, _ in statement.words]
            place = next((at for at, word in enumerate(words) if word.upper() in ("MACRO", "FUNCTION")), 0)
            macros[fold(named.name if named is not None else words[place + 1])] = statement.text
            continue
        table = target.this if isinstance(target, exp.Schema) else target
        if kind not in ("TABLE", "VIEW") or not isinstance(table, exp.Table):
            continue
        name = TableName(fold(table.catalog), fold(table.db), fold(table.name))
        query = None if any(name.may_be(table_name) for table_name in watched) else tree.expression
        if isinstance(query, exp.Query):
            # A table made from a query is treated as that query: a copy of a table is read like the table.
            named = target.expressions if isinstance(target, exp.Schema) else []
            views[name] = View(sql=query.sql(dialect="duckdb"), columns=tuple(fold(one.name) for one in named))
        elif kind == "TABLE" and isinstance(target, exp.Schema):
            tables[name] = _stored(target)
    return replace(schema, tables=tables, views=views, macros=macros)


def _stored(target: exp.Schema) -> Stored:
    columns: dict[str, str] = {}
    keys: list[frozenset[str]] = []
    for one in target.expressions:
        if isinstance(one, exp.ColumnDef):
            columns[fold(one.name)] = one.args["kind"].sql(dialect="duckdb") if one.args.get("kind") else ""
            if any(isinstance(each.kind, exp.PrimaryKeyColumnConstraint) for each in one.args.get("constraints") or []):
                keys.append(frozenset([fold(one.name)]))
        elif isinstance(one, exp.PrimaryKey):
            keys.append(frozenset(fold(expression.name) for expression in one.expressions))
    return Stored(columns=columns, keys=tuple(keys))


def _statement(statement: Statement, schema: Schema) -> Iterator[AuditFinding]:
    if statement.tree is None:
        yield from _unread(statement, schema)
        return
    texts: Counter[str] = Counter()
    for finding in findings_in(statement.tree, schema):
        if schema.protected is None and not isinstance(finding, GroupSizes | Conditional):
            continue
        if isinstance(finding, Unknown) and finding.writes:
            continue  # inserting rows returns nothing
        line = statement.line_of(finding.table.object, texts[finding.table.object])
        texts[finding.table.object] += 1
        verdict = Verdict.CHECK if isinstance(finding, Conditional | Counts) else Verdict.UNSAFE
        yield AuditFinding(
            Path(), line, "", finding.kind, str(finding.table), verdict, summary(finding), advice(finding)
        )


def _unread(statement: Statement, schema: Schema) -> Iterator[AuditFinding]:
    """A statement that cannot be parsed is unsafe if it names a watched table, or what is made from one."""
    said, ways = "the statement cannot be parsed", ("Write it so that it can be followed.", "Look at it yourself.")
    if "{{" in statement.text or "{%" in statement.text:
        said, ways = "a template, which is no SQL yet", ("Run dbt compile, and audit the project's folder.",) * 2
    named = sorted(name for name in schema.protected or () if statement.mentions(name.object))
    for name in named:
        line = statement.line_of(name.object)
        yield AuditFinding(Path(), line, "", "unknown", str(name), Verdict.UNSAFE, said, ways[0])
    if not named:
        yield AuditFinding(Path(), statement.line, "", "unknown", "", Verdict.UNREAD, said, ways[1])


def advice(finding: Finding) -> str:
    """What to do instead, ready to paste where the finding has all that a call needs."""
    table = str(finding.table)
    if isinstance(finding, GroupSizes):
        unit, regions, size = _columns(finding.unit), _columns(finding.regions), _quantity(finding.size)
        plain = not finding.filter and not finding.frame and len(finding.sources) == 1
        if not plain or unit is None or len(unit) != 1 or regions is None or size is None:
            return "Release it with noise: dp_group_sizes."
        more = (f", hierarchy := {_list(regions)}" if regions else "") + size
        return f"FROM dp_group_sizes({literal(table)}, {literal(unit[0])}{more}, epsilon := 1, max_size := 20)"
    if isinstance(finding, Conditional):
        rows, cols = _columns(finding.rows), _columns(finding.cols)
        if (
            not rows
            or not cols
            or finding.filter
            or finding.of
            or finding.event
            or finding.weight
            or len(finding.sources) > 1
        ):
            return "Look at its cells first: disclosure_report."
        return f"FROM disclosure_report({literal(table)}, {_list(rows)}, {_list(cols)})"
    if isinstance(finding, Counts):
        return "Small counts single people out: look at the smallest."
    if isinstance(finding, RecordReads):
        return f"{call('k_anonymize', table, ['...'])}, with the columns that people are known by."
    # What it asks is told with the reason beside it.
    return "It is not proven to be safe: ask for a release, or look at it yourself."


def _quantity(size: Expr) -> str | None:
    """The argument `quantity` for a group's size: empty for a count of records; None for what is no count or sum."""
    if size == Aggregate("count"):
        return ""
    if isinstance(size, Aggregate) and size.name == "sum" and not size.where and isinstance(size.argument, Column):
        return f", quantity := {literal(size.argument.name)}"
    return None


def _columns(exprs: tuple[Expr, ...]) -> list[str] | None:
    """The names, if all are columns as they stand."""
    names = [expr.name for expr in exprs if isinstance(expr, Column)]
    return names if len(names) == len(exprs) else None


def _list(names: Sequence[str]) -> str:
    return "[" + ", ".join(map(literal, names)) + "]"
