"""Scopes: what a name means in one SELECT of a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.expressions import SOMEWHERE, Column, Expr, ScalarQuery, Star, Unclear
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.algebra.relations import Opaque, Output, Relation, Source, Table


class Tables(Protocol):
    """What is known of the tables that a query with resolved names reads.

    macros: folded names of functions that users defined and that stand in the query, each with the protected tables
    that it may read.
    """

    @property
    def macros(self) -> Mapping[str, Sequence[Table]]: ...

    def relation(self, node: Node) -> Relation | None:
        """What a name in FROM means; None where it is the name of a CTE."""
        ...

    def mentioned(self, text: str) -> Sequence[Table]:
        """The protected tables that a text may name."""
        ...

    def function_reads(self, node: Node, queries: Sequence[Relation]) -> Opaque:
        """What the call of a table function reads. queries: those that stand in its arguments."""
        ...


@dataclass
class Visible:
    """A source under its alias, with its columns if they are known. USING hides the second of two equal columns."""

    alias: str
    source: Source
    columns: tuple[str, ...] | None
    hidden: frozenset[str] = frozenset()
    semi: bool = False


@dataclass
class Scope:
    """The sources of one SELECT, the names it gives to its outputs, and the query around it."""

    resolve: Callable[[Node, Scope], Relation]
    number: Callable[[], int]
    macros: Mapping[str, Sequence[Table]]
    outer: Scope | None = None
    ctes: dict[str, tuple[Node, Scope]] = field(default_factory=dict)
    visible: list[Visible] = field(default_factory=list)
    windows: dict[str, Node] = field(default_factory=dict)
    aliases: dict[str, Expr] = field(default_factory=dict)
    # While HAVING is translated: an output's name comes before a column that is not grouped by.
    keys: tuple[Expr, ...] | None = None

    def without_aliases(self) -> Scope:
        """The same sources, for other outputs."""
        return Scope(self.resolve, self.number, self.macros, self.outer, self.ctes, list(self.visible))

    def fresh(self) -> int:
        return self.number()

    def query(self, node: Node) -> Relation:
        """The relation of a subquery in an expression, which can use these sources too."""
        return self.resolve(node, self)

    def macro(self, name: str, operands: tuple[Expr, ...]) -> Expr:
        """A call of a macro: its meaning is not known, but the tables that it may read are."""
        reads = tuple(ScalarQuery(relation) for relation in self.macros[name])
        return Unclear(name, self.fresh(), (*operands, *reads))

    def column(self, name: str) -> Expr:
        """An unqualified name: a column, an output, a source as one value, or else a column of the outer query."""
        found = self._own(name)
        if found is None and self.outer is not None:
            return self.outer.column(name)
        return Column(SOMEWHERE, name) if found is None else found

    def _own(self, name: str) -> Expr | None:
        sure = [
            one for one in self.visible if one.columns is not None and name in one.columns and name not in one.hidden
        ]
        column = Column(sure[0].source.number, name) if sure else None
        alias = self.aliases.get(name)
        if column is not None and (alias is None or self.keys is None or column in self.keys):
            return column
        if alias is not None:
            return alias
        whole = next((one for one in self.visible if one.alias == name and not one.semi), None)
        untold = [one for one in self.visible if one.columns is None and name not in one.hidden and not one.semi]
        if whole is not None and not untold:
            return Star(whole.source.number)
        if untold:
            return Column(untold[0].source.number if len(untold) == 1 else SOMEWHERE, name)
        return None

    def qualified(self, table: str, name: str) -> Expr | None:
        """`table.name`, here or in the outer query; None if no source has that alias."""
        for one in self.visible:
            if one.alias == table and not (one.columns is not None and name not in one.columns and name != "rowid"):
                return Column(one.source.number, name)
        return None if self.outer is None else self.outer.qualified(table, name)

    def star(self, table: str) -> Expr:
        """`table.*` as one value."""
        for one in self.visible:
            if one.alias == table:
                return Star(one.source.number)
        return Star(SOMEWHERE) if self.outer is None else self.outer.star(table)

    def stars(self) -> tuple[Expr, ...]:
        """Every source of this SELECT as one value."""
        return tuple(Star(one.source.number) for one in self.visible)

    def expanded(self, table: str | None, without: frozenset[str], replaced: dict[str, Expr]) -> list[Output] | None:
        """The outputs of `*` or `table.*`; None if no source has that alias."""
        outputs: list[Output] = []
        chosen = [one for one in self.visible if (table is None and not one.semi) or one.alias == table]
        for one in chosen:
            skipped = without | (one.hidden if table is None else frozenset())
            if one.columns is None:
                outputs.append(Output("*", Star(one.source.number, frozenset(skipped))))
                outputs += [Output(name, expr) for name, expr in replaced.items()]
                continue
            for name in one.columns:
                if name not in skipped:
                    outputs.append(Output(name, replaced.get(name) or Column(one.source.number, name)))
        return outputs if chosen else None

    def cte(self, name: str) -> tuple[Node, Scope] | None:
        """The common table expression of that name, with the scope in which it is written."""
        found = self.ctes.get(fold(name))
        return found if found is not None or self.outer is None else self.outer.cte(name)
