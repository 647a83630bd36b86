"""A statement on its way through the rules: what is still open, and what was settled about the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from duckanon.errors import PolicyRefusal
from duckanon.rewrite.bind import Bound
from duckanon.rewrite.calls import Call
from duckanon.rewrite.catalog import Catalog, Protection
from duckanon.rewrite.decision import Copy, Step, Verdict
from duckanon.rewrite.spot.names import TableName, fold
from duckanon.rewrite.spot.trees import Node


@dataclass
class Question:
    """calls, reads: what no rule has settled yet. Rules take from them, change the bound tree, and add steps.

    approved: calls in the text that will run, as SQL. copies: what must stand before it runs.
    """

    bound: Bound
    catalog: Catalog
    calls: list[Call]
    reads: list[tuple[TableName, Node]]
    steps: list[Step] = field(default_factory=list)
    approved: list[str] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)

    def protection(self, name: TableName) -> Protection:
        return self.catalog.protected[name]

    def path(self, name: TableName) -> tuple[str, str, str]:
        """The name as stored."""
        return self.catalog.tables[name].path if name in self.catalog.tables else (name.catalog, name.schema, name.object)

    def label(self, name: TableName) -> str:
        """The name for people."""
        _, schema, table = self.path(name)
        return table if schema == "main" else f"{schema}.{table}"

    def columns(self, name: TableName) -> list[str]:
        """The table's columns as stored; none where they are not known."""
        return list(self.catalog.tables[name].columns) if name in self.catalog.tables else []

    def refuse(self, kind: str, name: TableName | None, reason: str) -> NoReturn:
        """End the statement: one part refused is all refused. Raises Refused."""
        raise Refused(Step(kind, None if name is None else self.label(name), Verdict.REFUSED, reason))


class Refused(PolicyRefusal):
    """A rule's refusal, with the step that says so."""

    def __init__(self, step: Step) -> None:
        super().__init__(step.reason)
        self.step = step


def has(names: object, column: str) -> bool:
    """Whether a column is among names, as DuckDB compares them."""
    return isinstance(names, list | tuple) and fold(column) in {fold(str(one)) for one in names}


def literal(text: str) -> str:
    """The text as a SQL string."""
    return "'" + text.replace("'", "''") + "'"


def literals(texts: object) -> str:
    """A list of strings, as SQL."""
    return "[" + ", ".join(literal(str(one)) for one in (texts if isinstance(texts, list | tuple) else ())) + "]"


def quoted(path: tuple[str, str, str]) -> str:
    """A full name in quotes."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in path)
