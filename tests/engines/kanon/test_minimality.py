"""What a reader gains who runs the method again on every table that could be behind a release (Wong et al. 2007).

The reader knows everybody's age, the call, and that each way to give out illnesses is as likely as any other. All of
them are tried: so what the reader knows afterwards is exact. l and t are about what the classes show, and this is the
measure of what they leave out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria
from duckanon.engines.kanon.private_classes import private_classes
from duckanon.engines.kanon.records import attribute, records
from duckanon.engines.kanon.risk import Sensitive
from duckanon.errors import InvalidInput

AGES = (20, 21, 30, 31, 40, 41)
ILLNESSES = 2

# An assignment of illnesses, by the number of a person; and a release: of each class, its persons and its illnesses.
Table = tuple[int, ...]
Release = frozenset[tuple[tuple[int, ...], tuple[int, ...]]]


def released(table: Table, wanted: PrivacyCriteria, method: str) -> Release | None:
    """What is released of a table; None if the call is refused. Ages are unequal, so intervals name the persons."""
    column = Sensitive(np.array(table, np.int32), ILLNESSES, ordered=False)
    try:
        found = private_classes(records([attribute("age", AGES)]), wanted, method, sensitive=[column])
    except InvalidInput:
        return None
    members = [tuple(np.flatnonzero(found.labels == label).tolist()) for label in range(int(found.labels.max()) + 1)]
    return frozenset((one, tuple(sorted(table[person] for person in one))) for one in members)


def guesses(wanted: PrivacyCriteria, method: str) -> Iterator[tuple[Fraction, Fraction]]:
    """For each table that is released and each person: how likely the likeliest illness is by the class alone, and to
    a reader who has run the method on every table."""
    behind: dict[Release, list[Table]] = defaultdict(list)
    for table in product(range(ILLNESSES), repeat=len(AGES)):
        release = released(table, wanted, method)
        if release is not None:
            behind[release].append(table)
    for release, tables in behind.items():
        for members, illnesses in release:
            shown = Fraction(max(Counter(illnesses).values()), len(members))
            for person in members:
                likeliest = max(Counter(table[person] for table in tables).values())
                yield from [(shown, Fraction(likeliest, len(tables)))] * len(tables)


@pytest.mark.parametrize(("method", "least"), [("auto", 64), ("order", 48)])
def test_a_reader_who_runs_the_method_again_may_be_certain_in_spite_of_l(method: str, least: int) -> None:
    """Of 372 persons in 62 releases `least` are found out, in classes in which three of four at most have the illness.

    By `auto` and with l = 2 that is 17 %: the figure of docs/guarantee/privacy-guarantee.md.
    """
    found = Counter(guesses(PrivacyCriteria(2, l=2), method))
    certain = {shown: many for (shown, known), many in found.items() if known == 1}
    assert sum(certain.values()) == least
    assert max(certain) == Fraction(3, 4)
    assert found.total() == 372


def test_a_reader_who_runs_the_method_again_gains_in_spite_of_t() -> None:
    """t bounds how far classes lie from the table; of some persons the reader is surer than they show."""
    found = Counter(guesses(PrivacyCriteria(2, t=Fraction(3, 10)), "auto"))
    surer = {(shown, known): many for (shown, known), many in found.items() if known > shown}
    assert sum(surer.values()) == 72
    assert max(known for _, known in surer) == 1
    assert found.total() == 384


def test_without_conditions_the_method_tells_no_more_than_the_classes() -> None:
    """Then illnesses play no part in the classes, so there is nothing to infer from them."""
    assert all(shown == known for shown, known in guesses(PrivacyCriteria(2), "auto"))
