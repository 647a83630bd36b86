"""What the page on k_anonymize says of a column that links records: it undoes k for whoever knows all of them.

The attack: somebody knows the quasi-identifiers of all members of every household. A household can stand behind a
number of the release if it has as many members as the number has rows, and each member fits a row of its own.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

import duckdb
import pytest

import duckanon

Person = tuple[int, int]
Row = tuple[int, int, int, int]


def fits(person: Person, row: Row) -> bool:
    return row[0] <= person[0] <= row[1] and row[2] <= person[1] <= row[3]


def matched(members: Sequence[Person], rows: Sequence[Row]) -> bool:
    """Whether each member fits a row of its own, by augmenting paths."""
    taken: dict[int, int] = {}

    def place(member: int, tried: set[int]) -> bool:
        for at, row in enumerate(rows):
            if at not in tried and fits(members[member], row):
                tried.add(at)
                if at not in taken or place(taken[at], tried):
                    taken[at] = member
                    return True
        return False

    return len(members) == len(rows) and all(place(member, set()) for member in range(len(members)))


def persons() -> dict[int, list[Person]]:
    """400 households of one to five persons: ages and sexes."""
    draw = random.Random(1)
    return {
        household: [(draw.randrange(90), draw.randrange(2)) for _ in range(draw.choice([1, 1, 2, 2, 3, 4, 5]))]
        for household in range(400)
    }


def released(truth: dict[int, list[Person]], k: int, method: str) -> dict[int, list[Row]]:
    """The rows of each number in a release by household, in which each household has a number."""
    con = duckdb.connect()
    duckanon.register(con)
    con.execute("CREATE TABLE persons (household INTEGER, age INTEGER, sex INTEGER)").fetchall()
    con.executemany("INSERT INTO persons VALUES (?, ?, ?)", [(h, *one) for h, each in truth.items() for one in each])
    rows = con.execute(
        "SELECT household, age_lo, age_hi, sex_lo, sex_hi "
        f"FROM k_anonymize('persons', ['age', 'sex'], k := {k}, unit := 'household', method := '{method}')"
    ).fetchall()
    found = defaultdict(list)
    for household, *cells in rows:
        found[household].append(tuple(cells))
    return found


@pytest.mark.parametrize(("k", "method"), [(5, "order"), (5, "auto"), (20, "order")])
def test_who_knows_all_members_finds_most_households(k: int, method: str) -> None:
    truth = persons()
    found = released(truth, k, method)
    several = [household for household, members in truth.items() if len(members) > 1]
    alone = 0
    for household in several:
        candidates = [number for number, rows in found.items() if matched(truth[household], rows)]
        # (The release keeps the household's own number, by which the test knows which is right.)
        assert household in candidates
        alone += candidates == [household]
    print(f"k = {k}, {method}: {alone} of {len(several)} households of two or more are found")
    assert alone > len(several) / 2


def test_without_the_number_one_record_fits_the_rows_of_k_households() -> None:
    truth = persons()
    found = released(truth, 5, "order")
    of_class = defaultdict(set)
    for household, rows in found.items():
        for row in rows:
            of_class[row].add(household)
    assert min(map(len, of_class.values())) >= 5
