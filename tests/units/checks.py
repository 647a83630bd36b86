"""What must hold of what is computed within units, whatever the records are: a search through random ones."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import sqlglot
from sqlglot import exp

from duckanon.analyst import Analyst
from duckanon.errors import DuckanonError
from duckanon.releases.paid_questions import AggregatesQuestion, PaidQuestion
from tests.answers.equality import Tolerance, difference
from tests.guard.truthful import truth
from tests.units.statements import Statements
from tests.units.world import Copy, Facts, Rows, decider, facts, owned, records, units, with_fewer_orphans, without

_STEPS = re.compile(r"to steps of (\d[\d.e+-]*\d|\d)")


@dataclass(frozen=True)
class Asked:
    """A statement with the questions that it pays for, those of values of all units first, and what then runs.

    step: the coarsest to which values are said to be rounded where they leave the units; 0 if none is.
    """

    sql: str
    questions: tuple[AggregatesQuestion, ...]
    then: str
    step: float = 0

    @property
    def last(self) -> AggregatesQuestion:
        return self.questions[-1]


@dataclass
class Wrong:
    """What does not hold: of which statement, and why."""

    sql: str
    reason: str
    seed: str = ""

    def __str__(self) -> str:
        return f"{self.reason}\n  {self.sql}{f'  ({self.seed})' if self.seed else ''}"


@dataclass
class Found:
    """What a search went through. tried: statements; asked: those that are answered within units."""

    tried: int = 0
    asked: int = 0
    compared: int = 0
    wrong: list[Wrong] = field(default_factory=list)


def ask(con: Analyst, sql: str) -> Asked | None:
    """What a statement asks; None if it is refused, or asks nothing that is computed within units."""
    try:
        decision = con._guard.decide(sql)
    except DuckanonError:
        return None
    answers: Sequence[PaidQuestion] = decision.answers
    questions = tuple(one for one in answers if isinstance(one, AggregatesQuestion))
    if len(questions) < len(answers) or not any(one.relation is not None for one in questions):
        return None
    steps = _STEPS.findall(" ".join(one.reason for one in decision.steps))
    return Asked(sql, questions, str(decision.sql), max(map(float, steps), default=0.0))


def rows_by_unit(copy: Copy, one: AggregatesQuestion) -> dict[Any, Counter[str]]:
    """The rows of the relation that stands for a table's records, of each unit and as text."""
    assert one.privacy_unit is not None
    found = copy.con.execute(f"FROM {one.records} AS r")
    at = [name for name, *_ in found.description].index(one.privacy_unit)
    rows: dict[Any, Counter[str]] = {}
    for row in found.fetchall():
        unit = row[at].decode() if isinstance(row[at], bytes) else row[at]
        rows.setdefault(unit, Counter())[repr(tuple(map(_compared, row)))] += 1
    return rows


def _compared(value: Any) -> Any:
    """A value as DuckDB compares it: -0.0 is 0.0, in hashes too, and no statement tells them apart."""
    return 0.0 if isinstance(value, float) and value == 0 else value


class Neighbours:
    """Compares relations and totals of random records with those of the records without one unit."""

    def __init__(self, decided: Analyst, about: Facts, rng: random.Random, *, collated: bool = True) -> None:
        self.about, self.rng = about, rng
        self._copies = [Copy.of(decided, collated=collated, threads=one, nullable=about.nullable) for one in (1, 4)]
        self._copies[1].con.execute("PRAGMA verify_parallelism").fetchall()

    def check(self, asked: Sequence[Asked], rows: Rows) -> Iterator[Wrong]:
        """Of each statement the first thing that does not hold."""
        copy = self._filled(rows)
        open_ = []
        for one in asked:
            try:
                for question in one.questions[:-1]:
                    for each in self._copies:
                        each.store(question, truth(copy.con, question))
                        copy = self._filled(rows)
                open_.append((one, rows_by_unit(copy, one.last), copy.exact(one.last)))
            except duckdb.Error as error:
                yield Wrong(one.sql, f"it fails: {str(error)[:200]}")
        # Nobody's records may be gone while all units stay.
        others: list[tuple[Any, Rows]] = [(None, rows), (None, with_fewer_orphans(rows, self.about, self.rng))]
        others += [(unit, without(rows, self.about, unit)) for unit in units(rows, self.about)]
        for unit, fewer in others:
            copy = self._filled(fewer)
            for place in list(open_):
                one, before, totals = place
                try:
                    reason = self._moved(copy, one.last, unit, before, totals)
                except duckdb.Error as error:
                    reason = f"it fails without {unit!r}: {str(error)[:200]}"
                if reason is not None:
                    open_.remove(place)
                    yield Wrong(one.sql, reason)

    def _filled(self, rows: Rows) -> Copy:
        copy = self.rng.choice(self._copies)
        copy.fill(rows, self.rng)
        return copy

    def _moved(
        self, copy: Copy, one: AggregatesQuestion, unit: Any, before: dict[Any, Counter[str]], totals: list[Any]
    ) -> str | None:
        """What is wrong without a unit; unit None: with the same records in another order, or fewer of nobody's."""
        after = rows_by_unit(copy, one)
        if None in before or None in after:
            return "a row has no unit"
        for other in {*before, *after} - {unit}:
            if before.get(other) != after.get(other):
                return f"rows of {other!r} differ without {unit!r}"
        if unit in after and unit is not None:
            return f"{unit!r} has rows though it is gone"
        now = copy.exact(one)
        for (measure, _), old, new in zip(one.measures, totals, now, strict=True):
            distance = int(np.abs(old - new).sum())
            most = 0 if unit is None else one.moved(measure).distance * measure.whole
            if distance > most:
                return f"{measure.kind} moves by {distance} without {unit!r}; the noise is made for {most}"
        return None


class Equal:
    """Compares answers without noise with DuckDB's own over the records that have an owner."""

    def __init__(self, decided: Analyst, about: Facts, rng: random.Random) -> None:
        self.about, self.rng = about, rng
        self._mine = Copy.of(decided, collated=False, threads=2, nullable=about.nullable)
        self._theirs = Copy.of(decided, collated=False, nullable=about.nullable)

    def check(self, asked: Sequence[Asked], rows: Rows) -> Iterator[Wrong]:
        self._mine.fill(rows, self.rng)
        self._theirs.fill(owned(rows, self.about), self.rng)
        for one in asked:
            if _counts_groups_of_all_units(one.then):
                continue
            try:
                for question in one.questions:
                    self._mine.store(question, truth(self._mine.con, question))
                mine = self._mine.con.execute(one.then).fetchall()
            except (duckdb.Error, OverflowError) as error:
                yield Wrong(one.sql, f"it fails: {str(error)[:200]}")
                continue
            try:
                theirs = self._theirs.con.execute(one.sql).fetchall()
            except duckdb.Error:
                continue  # DuckDB's own cannot be told, as of `any_value` in HAVING.
            wrong = difference(one.sql, mine, theirs, [], self._allowed(one))
            if wrong is not None:
                yield Wrong(one.sql, f"{wrong[0]}: {wrong[1]!r}; ours {mine[:4]}, DuckDB's {theirs[:4]}")

    def _allowed(self, one: Asked) -> Tolerance:
        """Each row's value is rounded by half a step at most, so a sum of them by as many halves."""
        if not one.step:
            return Tolerance()
        ((rows,),) = self._mine.con.execute(f"SELECT count(*) FROM {one.last.records} AS r").fetchall()
        return Tolerance(absolute=1e-9 + rows * one.step / 2)


def _counts_groups_of_all_units(then: str) -> bool:
    """Whether a statement counts, averages or compares the rows of an answer: those of zeros too, of which DuckDB has
    none. Sums are as without them, but for a sum of no rows, which is NULL.
    """
    query = sqlglot.parse_one(then, read="duckdb")
    if not isinstance(query, exp.Select) or not isinstance(query.args["from_"].this, exp.Subquery):
        return False
    return any(not isinstance(found, exp.Sum) for one in query.expressions for found in one.find_all(exp.AggFunc))


@contextmanager
def world(*, by_person: bool, wide: bool, nullable: bool = False) -> Iterator[tuple[Analyst, Facts]]:
    about = facts(by_person=by_person, wide=wide, nullable=nullable)
    with TemporaryDirectory() as folder, decider(Path(folder), about) as con:
        yield con, about


def batch(con: Analyst, made: Statements, count: int, found: Found) -> list[Asked]:
    """So many statements that are answered within units."""
    batched: list[Asked] = []
    while len(batched) < count:
        found.tried += 1
        sql = made.statement()
        try:
            one = ask(con, sql)
        except Exception as error:
            # Whatever is refused is refused by a sentence of ours.
            found.wrong.append(Wrong(sql, f"deciding raises {type(error).__name__}: {str(error)[:100]}"))
            continue
        if one is not None:
            batched.append(one)
    found.asked += count
    return batched


def search(what: str, statements: int, seed: int, *, per_world: int = 25) -> Found:
    """A search through so many statements. what: neighbours or equality."""
    found = Found()
    worlds = [(by_person, wide) for by_person in (False, True) for wide in (False, True)]
    if what == "equality":
        worlds = [one for one in worlds if one[1]]
    for at, (by_person, wide) in enumerate(worlds):
        share = -(-statements // len(worlds))
        # Where keys are NULL a join mostly has no row, and of none DuckDB shows no group where ours are of zeros.
        nullable = what == "neighbours" and (seed + at // 2 + at) % 2 == 0
        with world(by_person=by_person, wide=wide, nullable=nullable) as (con, about):
            rng = random.Random(f"{what} {by_person} {wide} {seed}")
            made = Statements(rng, about, compared=what == "equality")
            checked = Equal(con, about, rng) if what == "equality" else Neighbours(con, about, rng)
            done = 0
            while done < share:
                asked = batch(con, made, min(per_world, share - done), found)
                is_tame = what == "equality"
                rows = records(
                    rng,
                    customers=rng.choice([1, 3, 6]),
                    extreme=not is_tame and rng.random() < 0.4,
                    tame=is_tame,
                    nullable=nullable,
                )
                for wrong in checked.check(asked, rows):
                    wrong.seed = f"by_person={by_person} wide={wide} nullable={nullable} seed={seed}"
                    found.wrong.append(wrong)
                done += len(asked)
    return found


def shown(found: Found) -> str:
    return "\n".join(map(str, found.wrong[:20]))
