"""The mechanisms that answer paid questions. Only here are records of protected tables read for analysts.

Contribution is bounded in this order: the filter, the join with the keys' domains, then a sample of the records of each
privacy unit. They are a sample: which of a unit's records count follows from a hash of the unit and the record, so each
record of a unit is as likely to count as any other, and no other unit has a say in it. Records without a unit or a
group, or with a key outside its domain, are not counted. An answer's form (columns, keys, number of rows) does not
depend on records, and no record can make it fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from duckanon.catalog.arrow_texts import labelled
from duckanon.engines.randomness import Entropy, Source
from duckanon.releases.measures import Ints
from duckanon.releases.mechanisms import aggregates, forms, found_keys, group_sizes, marginals, reading
from duckanon.releases.paid_questions import AggregatesQuestion, GroupSizesQuestion, KeysQuestion, PaidQuestion
from duckanon.releases.preparations import FollowingQuestion, PreparationQuestion


def draw(con: duckdb.DuckDBPyConnection, question: PaidQuestion, source: Source | None = None) -> pa.Table:
    """The answer with noise. con: a connection of governance's own. source: of randomness; None: the system's.

    Some of its columns are texts on the way, and are labelled with their types.
    """
    drawn = BY_KIND[type(question)].draw(con, question, source or Entropy())
    return labelled(drawn, forms.columns(con, question))


def bind(con: duckdb.DuckDBPyConnection, question: PaidQuestion) -> None:
    """Let DuckDB bind what puts records into cells, without reading one. Raises DuckDB's error where it cannot.

    A question over one table has been bound in all its parts; one over a relation is bound here. The answers of other
    questions that it needs may not be there yet: such a one is left.
    """
    if not isinstance(question, AggregatesQuestion) or question.relation is None:
        return
    if not question.needs:
        con.sql(f"WITH _dk_form AS ({forms.cells_of(question)}) {reading.placed(con, question)}")


def exact(con: duckdb.DuckDBPyConnection, question: PaidQuestion) -> list[Ints]:
    """The exact values, with bounded contribution and without noise, in the order of the form.

    For aggregates the totals of each measure, as `aggregates.totals` has them; for group sizes one array of shape (leaf
    regions, max_size).
    """
    return BY_KIND[type(question)].exact(con, question, len(forms.form(con, question)))


class _Mechanism(NamedTuple):
    draw: Callable[[duckdb.DuckDBPyConnection, Any, Source], pa.Table]
    exact: Callable[[duckdb.DuckDBPyConnection, Any, int], list[Ints]]


BY_KIND: dict[type[PaidQuestion], _Mechanism] = {
    AggregatesQuestion: _Mechanism(aggregates.noisy_aggregates, aggregates.totals),
    KeysQuestion: _Mechanism(
        found_keys.noisy_keys, lambda con, question, _: [found_keys.units_by_value(con, question)[1]]
    ),
    GroupSizesQuestion: _Mechanism(
        group_sizes.noisy_sizes, lambda con, question, size: [group_sizes.exact_sizes(con, question, size)]
    ),
    PreparationQuestion: _Mechanism(
        marginals.noisy_marginals,
        lambda con, question, _: list(marginals.marginals(con, question).values()),
    ),
    FollowingQuestion: _Mechanism(lambda con, question, _: marginals.following(con, question), lambda *_: []),
}
