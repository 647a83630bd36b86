"""All kinds of release together: which one answers a finding, and what may be asked instead of what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from sqlglot import exp

from duckanon.catalog.names import TableName, fold, quoted, spelled
from duckanon.governance.ledger_state import Publication
from duckanon.governance.preparations import Preparation
from duckanon.releases import (
    group_size_queries,
    group_sizes,
    listed_values,
    noisy_aggregates,
    prepared_aggregates,
    published,
    published_shares,
    stored_aggregates,
    suggestions,
)
from duckanon.releases.paid_questions import PaidQuestion
from duckanon.releases.preparations import FollowingQuestion
from duckanon.releases.sizes import Values
from duckanon.rewrite.algebra.nodes import Node, nodes_of
from duckanon.rewrite.calls import Call
from duckanon.rewrite.decision import Step, Verdict
from duckanon.rewrite.normalize.grouped import aggregates_itself
from duckanon.rewrite.normalize.order_limit import order_limit
from duckanon.rewrite.recognize import Conditional, Counts, Finding, GroupSizes, RecordReads
from duckanon.rewrite.rule_context import RuleContext


def _unread(values: Values) -> str:  # noqa: ARG001 # as all `contents`
    return ""


def _nothing(query: str) -> tuple[Any, ...]:  # noqa: ARG001 # as all `values`
    return (None, None)


@dataclass(frozen=True)
class AvailableReleases:
    """The releases that an analyst can get.

    publications: of each protected table, without withdrawn ones. taken: names of all publications, also withdrawn.
    contents: gives a hash of an open table's values; none where there is no database to read them from. values: the
    first row of a query over open tables.
    counted: gives the number of cells of an answer, from the domains alone, or None if it is not known. preparations:
    of each protected table those of its policy and edition. placed: gives the cells of an answer that follows from one.
    charged: gives the day on which a question was charged, if its answer is free now. unprepared: gets what says why a
    query does not follow from what is prepared.
    """

    publications: Mapping[TableName, Sequence[Publication]] = field(default_factory=dict)
    taken: tuple[str, ...] = ()
    contents: Callable[[Values], str] = _unread
    values: Callable[[str], Any] = _nothing
    counted: Callable[[PaidQuestion], int | None] = lambda _: None
    preparations: Mapping[TableName, Sequence[Preparation]] = field(default_factory=dict)
    placed: Callable[[FollowingQuestion], Any] = lambda _: None
    charged: Callable[[PaidQuestion], date | None] = lambda _: None
    unprepared: Callable[[Callable[[], str]], None] = lambda _: None

    def content(self, values: Values) -> str:
        """A hash of the values of an open table by which records are looked up."""
        return self.contents(values)

    def value(self, query: str) -> Any:
        """The first row that a query over open tables alone gives, as a tuple."""
        return self.values(query)

    def cells(self, question: PaidQuestion) -> int | None:
        """The number of cells of an answer, which is public; None if it is not known."""
        return self.counted(question)

    def drawn(self, question: PaidQuestion) -> date | None:
        """The day on which a question was charged, if its answer is free now; else None."""
        return self.charged(question)

    def prepared(self, name: TableName) -> Sequence[Preparation]:
        """What is prepared of a protected table."""
        return self.preparations.get(name, ())

    def not_prepared(self, why: Callable[[], str]) -> None:
        """Note why a query does not follow from what is prepared: a sentence, which is made for who reads it."""
        self.unprepared(why)

    def places(self, question: FollowingQuestion) -> Any:
        """The cells of an answer that follows from what is prepared, from domains alone; None if they are many."""
        return self.placed(question)

    def answer(self, context: RuleContext, findings: Sequence[Finding], node: Node) -> str | None:
        """Replace the node that asks for `findings` by a release. Returns why there is none, in a sentence, or None."""
        first = findings[0]
        if node is None:
            return "The query is put together in a way that is not followed: ask for one release after the other."
        if isinstance(first, GroupSizes) and len(findings) == 1:
            return group_size_queries.answer(context, first, node)
        if isinstance(first, Counts) and len(findings) == 1:
            return None if self.follows(context, node) else self.with_noise(context, node)
        shares = [conditional for conditional in findings if isinstance(conditional, Conditional)]
        if shares and len(shares) == len(findings) and len({share.table for share in shares}) == 1:
            return self._shares_answered(context, shares, node)
        return "The query asks for several things at once: ask for one release after the other."

    def follows(self, context: RuleContext, node: Node) -> bool:
        """Replace a SELECT of counts by what follows from a publication. Returns whether one has them."""
        found = context.alone(node)
        if len(found) != 1 or not isinstance(found[0], Counts):
            return False
        counts, published_of = found[0], self.publications.get(found[0].table)
        if not published_of:
            return False
        text = published.counts(counts, published_of, counts.table.catalog)
        put = published.count_columns(context, counts, node, f"({text}) AS _dk_counts") if text is not None else None
        if put is None or not order_limit(node, put):
            return False
        _settle_from_publication(context, counts, node, put)
        return True

    def _shares_answered(self, context: RuleContext, conditionals: Sequence[Conditional], node: Node) -> str | None:
        """Answer shares from a publication, else with noise; else suggest what could be published."""
        name = conditionals[0].table
        text = published.answer(conditionals, self.publications.get(name, ()), name.catalog)
        put = None
        if text is not None and published_shares.are_followed(conditionals):
            put = published_shares.share_columns(context, conditionals, node, f"({text}) AS _dk_shares")
        if put is not None:
            _settle_from_publication(context, conditionals[0], node, put)
            return None
        reason = self.with_noise(context, node)
        if reason is None:
            return None
        may_publish = published.columns_of(conditionals) <= context.policy(name).publishable
        way = (
            published.suggestion(conditionals, context.written(name), context.columns(name), self.taken)
            if may_publish
            else None
        )
        return reason if way is None else f"{reason} A steward could publish the shares: {way}."

    def with_noise(self, context: RuleContext, node: Node) -> str | None:
        """Replace a SELECT by the same over noisy numbers. Returns why that cannot be done, else None."""
        if self.preparations and prepared_aggregates.follows(context, node):
            return None
        has_delta = any(context.protected(name).renyi is not None for name, _ in context.reads)
        if has_delta and stored_aggregates.follows(context, node):
            return None
        selects = len(nodes_of(node, exp.Select))
        if isinstance(node, exp.Select) and (selects > 1 or not aggregates_itself(node)):
            found = context.alone(node)
            shares = [
                conditional
                for conditional in found
                if isinstance(conditional, Conditional) and conditional.weight is None
            ]
            if shares and len(shares) == len(found):
                return self._put_together(context, shares, node)
            is_of_windows = selects == 1 and node.find(exp.Window) is not None
            if is_of_windows and len(found) == 1 and isinstance(found[0], Counts):
                return self._put_together(context, found[0], node)
        return noisy_aggregates.of_query(context, node)

    def _put_together(self, context: RuleContext, found: Counts | Sequence[Conditional], node: Node) -> str | None:
        """As `with_noise`, for counts and shares that are put together from windows, subqueries or joined totals.

        They are asked as the SELECT with GROUP BY that they mean: one question has all of them.
        """
        meant = noisy_aggregates.with_groups(context, found, node)
        if meant is None:
            return noisy_aggregates.UNGROUPED
        if self.preparations and prepared_aggregates.follows(context, node, meant):
            return None
        return noisy_aggregates.of_query(context, node, meant)

    def listed(
        self, context: RuleContext, name: TableName, columns: Sequence[str], node: Node, *, around: bool
    ) -> None:
        """Replace a read of a protected table by the listed values of public columns, if all have domains.

        around: whether there is a query around the one for the values.
        """
        listed_values.listed(context, name, columns, node, around=around)

    def call(self, context: RuleContext, call: Call, name: TableName) -> None:
        """Answer a call on a protected table, or refuse it."""
        if call.function == "dp_group_sizes" and call.tables.get("tbl") == name:
            reason = group_sizes.of_call(context, call, name)
            if reason is not None:
                context.refuse(group_sizes.KIND, name, reason)
            return
        records = call.function == "k_anonymize"
        text = "is released by the steward, once" if records else "shows exact values"
        said = f"{call.function} of {context.label(name)}, which is protected, {text}."
        context.refuse(
            "k-anonymous copy" if records else f"call of {call.function}",
            name,
            f"{context.not_answered(call.node, said)} "
            + self.offers(context, name, RecordReads.shown if records else ""),
        )

    def offers(self, context: RuleContext, name: TableName, kind: str) -> str:
        """What may be asked of a table instead, in a sentence, what comes nearest to a kind of question first."""
        ways: dict[str, Callable[[], list[str]]] = {
            RecordReads.shown: lambda: self._published(name, "records"),
            Conditional.shown: lambda: self._published(name, "shares", "counts"),
            Counts.shown: lambda: self._counts(context, name),
            GroupSizes.shown: lambda: self._sizes(context, name),
        }
        if kind == RecordReads.shown and _is_browse(context.bound.query):
            ways[Counts.shown] = lambda: suggestions.browsed(context, name)
            ways["total"] = lambda: suggestions.total(context, name)
        order = [kind, *(release for release in ways if release != kind)] if kind in ways else list(ways)
        questions = [way for release in order for way in ways[release]()]
        if not questions and not context.catalog.protected[name].stands:
            return "Nothing may be asked of this table until its steward has settled its policy."
        if not questions:
            return "Its policy offers no release: ask the steward."
        return f"What may be asked: {' or '.join(questions[:3])}."

    def _published(self, name: TableName, *releases: str) -> list[str]:
        return [
            f"FROM {quoted([publication.name])}"
            for publication in self.publications.get(name, ())
            if publication.kind in releases
        ]

    def _sizes(self, context: RuleContext, name: TableName) -> list[str]:
        suggestion = group_sizes.suggestion(context, name)
        return [f"FROM {suggestion}"] if suggestion is not None else []

    def _counts(self, context: RuleContext, name: TableName) -> list[str]:
        protected = context.catalog.protected[name]
        if protected.policy.per_query is None or not protected.stands:
            return []
        stored = {fold(column): column for column in context.columns(name)}
        public = [fold(name) for name in (*protected.policy.public, *protected.policy.hierarchy)]
        keys = [stored[text] for text in public if text in protected.domains and text in stored][:1]
        shown = "".join(f"{spelled([key])}, " for key in keys)
        grouped = " GROUP BY ALL" if keys else ""
        return [f"SELECT {shown}count(*) FROM {context.written(name)}{grouped}"]


def _is_browse(query: Node) -> bool:
    """Whether a query asks for all columns of one table as they are, or for more than one, under any names."""
    tables = list(query.find_all(exp.Table)) if isinstance(query, exp.Select) else []
    if len(tables) != 1 or not isinstance(tables[0].this, exp.Identifier) or query.args.get("distinct"):
        return False
    shown = [expression.unalias() for expression in query.expressions]
    return all(isinstance(value, exp.Star | exp.Column) for value in shown) and (len(shown) > 1 or shown[0].is_star)


def _settle_from_publication(context: RuleContext, counts: Counts | Conditional, node: Node, put: Node) -> None:
    """Replace a node by what follows from a publication."""
    context.replace(node, put)
    reason = "It follows from what a steward published, and costs nothing."
    context.steps.append(Step(counts.shown, context.label(counts.table), Verdict.RELEASED, reason))
