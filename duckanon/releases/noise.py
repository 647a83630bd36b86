"""What answers with noise have in common: what a policy offers, which keys and conditions it allows."""

from __future__ import annotations

from collections.abc import Sequence

from duckanon.catalog.names import TableName, fold
from duckanon.catalog.reader import may_be_days
from duckanon.catalog.snapshot import Protected
from duckanon.governance.answers import check_price
from duckanon.governance.budgets import room_in_words
from duckanon.releases.intervals import Noisy
from duckanon.releases.paid_questions import AggregatesQuestion, Key, PaidQuestion, key
from duckanon.rewrite.algebra.expressions import Column, Expr, walk
from duckanon.rewrite.algebra.filters import written
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.decision import Step, Verdict
from duckanon.rewrite.rule_context import RuleContext

# The largest scale of noise, in records, and in parts of a record where totals fit into 64 bits.
_WIDEST, _WIDEST_DRAWN = 10**9, 2**55
_NONE = "The policy offers no counts with noise: ask the steward to protect the table with per_query."


class NotOffered(Exception):
    """Why a question is not answered, in one sentence. part: the node in the query that it is about, if it is known.

    is_last: whether it is the reason to tell, even where another way of answering is tried after this one.
    """

    def __init__(self, reason: str, part: Node | None = None, *, is_last: bool = False) -> None:
        super().__init__(reason)
        self.part, self.is_last = part, is_last


class AddsUpNothing(NotOffered):
    """A query with grouping sets asks for numbers that do not add up: each set is a question of its own."""


def offering(context: RuleContext, name: TableName) -> Protected:
    """The protected table, if its policy offers noisy answers and it has all columns of the policy.

    Raises NotOffered.
    """
    protected = context.protected(name)
    if protected.policy.per_query is None:
        raise NotOffered(_NONE)
    check_stands(protected)
    return protected


def check_stands(protected: Protected) -> None:
    """Raises NotOffered for a table that is gone, or lacks a column of its policy."""
    if not protected.stands:
        raise NotOffered(
            "The table does not stand as its policy needs it, with all columns that it names, none generated or with "
            "COLLATE, and with the keys that its links need: ask the steward."
        )


def public_key(context: RuleContext, name: TableName, expr: Expr) -> Key:
    """The key for an expression: it must be a column that the policy calls public and that has a domain.

    Raises NotOffered.
    """
    protected = context.protected(name)
    allowed = {fold(name): name for name in (*protected.policy.public, *protected.policy.hierarchy)}
    is_stored = not isinstance(expr, Column) or expr.name in map(fold, context.columns(name))
    if isinstance(expr, Column) and name not in context.derived and not is_stored:
        raise NotOffered(
            f'{context.label(name)} has no column "{expr.name}": look at its names in information_schema.columns.'
        )
    if not isinstance(expr, Column) or expr.name not in allowed:
        listed = ", ".join(text for folded, text in allowed.items() if key(protected, folded) is not None)
        if name in context.derived and not listed:
            # Only columns that the query reads are known of what is computed within units.
            raise NotOffered("Counts are told by columns that the policies call public and have domains for.")
        raise NotOffered(f"Counts are told by columns that the policy calls public ({listed or 'none'}).")
    found = key(protected, expr.name)
    if found is None:
        types = {} if protected.stored is None else protected.stored.types
        earlier = may_be_days(protected, expr.name, types)
        if earlier is not None:
            raise NotOffered(earlier)
        raise NotOffered(
            f"The policy has no domain for {expr.name}, so its values are not told: ask the steward for one."
        )
    return found


def conditions(context: RuleContext, name: TableName, exprs: Sequence[Expr]) -> list[str]:
    """Conditions on records as SQL that cannot fail. Raises NotOffered for dropped columns, and NotTotal."""
    # Conditions are held in sets, whose order differs from process to process: which is refused must not.
    ordered = in_order(exprs) if exprs else []
    for expression in ordered:
        not_dropped(context, name, columns_of(expression))
    told = {one: written(one, context.types(name), context.today) for one in ordered}
    return [told[expr] for expr in exprs]


def not_dropped(context: RuleContext, name: TableName, used: set[str]) -> None:
    """Raises NotOffered if one of the folded columns is dropped."""
    dropped = context.protected(name).policy.drop
    if used & {fold(name) for name in dropped}:
        raise NotOffered(f"The policy lets nothing out that depends on {', '.join(dropped)}.")


def all_of(context: RuleContext, name: TableName, exprs: frozenset[Expr]) -> str:
    """Conditions joined by AND, in a fixed order."""
    return " AND ".join(sorted(f"({condition})" for condition in conditions(context, name, in_order(exprs))))


def columns_of(expr: Expr) -> set[str]:
    return {node.name for node in walk(expr) if isinstance(node, Column)}


def sorted_keys(keys: Sequence[Key]) -> tuple[Key, ...]:
    """Keys in a fixed order, so that counts by the same keys are one question, and so are shares of them."""
    return tuple(sorted(set(keys), key=lambda item: fold(item.column)))


def check(question: AggregatesQuestion, protected: Protected) -> None:
    """Raises NotOffered or InvalidInput for a question that would cost too little or have too much noise."""
    check_price(question.epsilon, protected.total, protected.renyi)
    if any(measure.exceeds(question.noise(measure), _WIDEST, _WIDEST_DRAWN) for measure, _ in question.measures):
        raise NotOffered("The noise would be wider than a billion: ask the steward for a larger per_query.")


def not_covered(question: PaidQuestion) -> str:
    """Sentences about what does not count; empty where all records count as they are. Intervals are for the noise."""
    left_out = left_out_of(question)
    return f"{in_one_region(question)} Intervals do not cover {left_out}." if left_out else ""


def in_one_region(question: PaidQuestion) -> str:
    """A sentence that each unit counts in one of several regions only; empty where it does not."""
    if not _has_home(question):
        return ""
    by = ", ".join(key.column for key in question.form.keys)
    return f" Each {question.privacy_unit} counts in one region by {by} only, with its records there."


def left_out_of(question: PaidQuestion) -> str:
    """What besides the noise of the answer is between it and the records; empty where all count as they are."""
    left_out = ["records left out by rows_per_unit"] if question.leaves_out else []
    left_out += ["values clamped to their bounds"] if question.clamps else []
    left_out += ["records in other regions"] if _has_home(question) else []
    columns = [key.column for key in question.form.keys if key.found]
    left_out += [f"records whose {' or '.join(columns)} too few share to be found"] if columns else []
    left_out += ["the noise of the answer with which records are compared"] if question.needs else []
    return " or ".join(left_out)


def _has_home(question: PaidQuestion) -> bool:
    """Whether each unit counts in one of several regions only."""
    return question.is_of_one_cell and bool(question.form.keys)


def seek(context: RuleContext, name: TableName, keys: Sequence[Key]) -> None:
    """Note the questions that find keys' values with noise, where that was not done yet, with their steps."""
    protected = context.protected(name)
    for one in keys:
        asked = one.sought
        if asked is None or any(asked == answer for answer in context.answers):
            continue
        check_price(asked.epsilon, protected.total, protected.renyi)
        context.answers.append(asked)
        said = (
            f"The values of {asked.column} are found with noise, once an edition: those that {asked.threshold:,} units "
            f"or more have by their noisy number, at most {asked.most:,}. The noise protects {asked.protects}."
        )
        room = room_in_words(protected.remaining, asked.epsilon, protected.renyi, protected.left_in_edition)
        step = Step(
            "keys",
            context.label(TableName(*map(fold, asked.location.path))),
            Verdict.REWRITTEN,
            said + room,
            asked.epsilon,
            protected.remaining,
            asked.edition,
        )
        context.steps.append(step)


def _of_kind(question: PaidQuestion) -> str:
    """What noise it is, as a sentence; empty in a population without a delta, which has one kind alone."""
    return f" It is {question.noise_words}." if question.noise_words else ""


def settle(
    context: RuleContext,
    name: TableName,
    question: AggregatesQuestion,
    kind: str,
    what: str,
    counted: Sequence[tuple[Noisy, int]],
    noisy: Sequence[tuple[int, float]] = (),
    note: str | None = None,
) -> None:
    """Note a question as one to be answered, with the step that describes it.

    counted: the noise of its counts, and how many cells each adds up. noisy, note: as of the step.
    """
    seek(context, name, question.keys)
    context.answers.append(question)
    protected = context.protected(name)
    step = Step(
        kind,
        context.label(name),
        Verdict.REWRITTEN,
        f"{what} The noise protects {question.protects}.{_of_kind(question)}{not_covered(question)}"
        f"{room_in_words(protected.remaining, question.epsilon, protected.renyi, protected.left_in_edition)}",
        question.epsilon,
        protected.remaining,
        question.edition,
        within=max((noise.records(cells) for noise, cells in counted), default=None),
        width=max((noise.fine(cells) for noise, cells in counted), default=None),
        noisy=tuple(noisy),
        note=note,
    )
    context.steps.append(step)
