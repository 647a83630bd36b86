"""Questions that statements from the grammar pay for.

Half (a) injects every answer, so it never draws one. These are drawn from the records, as half (b) draws its own: a
filter that fails on a record, or a form that depends on one, shows only there.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from duckanon.analyst import Analyst
from duckanon.errors import DuckanonError
from duckanon.releases.mechanisms import forms
from duckanon.releases.paid_questions import AggregatesQuestion, PaidQuestion
from duckanon.units.relation import Answered
from tests.noninterference.statements import sent

# Beyond so many cells a question takes long to look at, and has nothing that a smaller one has not.
_MOST_CELLS = 500


def grown(con: Analyst, rng: random.Random, count: int, tries: int = 400) -> Iterator[PaidQuestion]:
    """Up to `count` different questions of one table each, from `tries` statements at most. Nothing is charged.

    What is free reads no record: it follows from what was bought.
    """
    seen: set[str] = set()
    for _ in range(tries):
        one = sent(rng)
        if one.parameters:
            continue
        try:
            answers = con._guard.decide(one.sql).answers
        except DuckanonError:
            continue
        for asked in answers:
            # (`tests/units` draws those that stand on an answer bought before them.)
            reads = asked.epsilon > 0 and not _stands_on_another(asked)
            if reads and asked.key not in seen and _cells(con, asked) <= _MOST_CELLS:
                seen.add(asked.key)
                yield asked
                if len(seen) == count:
                    return


def _stands_on_another(asked: PaidQuestion) -> bool:
    relation = asked.relation if isinstance(asked, AggregatesQuestion) else None
    return relation is not None and any(isinstance(one, Answered) for one in relation.leaves())


def _cells(con: Analyst, asked: PaidQuestion) -> int:
    with con._con.cursor() as raw:
        return forms.cells(raw, asked)
