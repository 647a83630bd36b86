"""`python -m tests.noninterference --statements 20000 --pairs 50 --seed 1`: both halves, at length."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from duckanon.releases.paid_questions import AggregatesQuestion
from tests.noninterference.answers import contribution, difference, questions, too_far
from tests.noninterference.grown import grown
from tests.noninterference.harness import Comparison, Sent, injecting
from tests.noninterference.statements import corpora, sent
from tests.noninterference.worlds import Pair, change, pair

# After so many statements the records change, and the catalog and the ledgers are compared.
_CHANGED, _LOOKED = 5, 60
# Of each pair so many kinds of answer are looked at alone, and so many questions that grew from the grammar, with so
# many privacy units.
_ALONE, _GROWN, _UNITS = 3, 6, 8


def run(statements: int, pairs: int, seed: int, *, quiet: bool = False) -> tuple[Comparison, int, list[str]]:
    """Both halves; it ends after twenty differences.

    Returns the comparison of half (a), and of half (b) how many answers were looked at and what is wrong with them.
    """
    rng = random.Random(seed)
    total = Comparison(None, None)  # type: ignore[arg-type]
    share = -(-statements // pairs)
    corpus = list(corpora())
    looked = 0
    wrong: list[str] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, injecting():
        for number in range(pairs):
            with pair(Path(folder) / "pair", rng.randrange(10**9)) as worlds:
                here = Comparison(worlds.first, worlds.second)
                # Between them the pairs send each statement of the corpora as it stands.
                fixed = [Sent(one) for one in corpus[number::pairs]]
                compare(here, rng, fixed, min(share, max(0, statements - total.sent)))
                found = answers_alone(worlds, rng)
            looked, wrong = looked + len(found), wrong + [one for one in found if one]
            for one in found:
                if one:
                    print(f"WRONG with {worlds.facts}\n{one}", flush=True)
            for each in here.differences:
                print(f"DIFFERENCE with {worlds.facts}\n{each}", flush=True)
            for unexpected in here.unexpected[:3]:
                print(f"UNEXPECTED {unexpected}", flush=True)
            total.sent, total.ran = total.sent + here.sent, total.ran + here.ran
            total.differences += here.differences
            total.unexpected += here.unexpected
            if not quiet:
                spent = time.monotonic() - begun
                print(f"{number + 1} of {pairs} pairs, {total.sent} statements, {spent:.0f} s", flush=True)
            if len(total.differences) > 20:
                break
    return total, looked, wrong


def answers_alone(worlds: Pair, rng: random.Random) -> list[str]:
    """Half (b) of a few kinds of answer and a few grown questions: of each what is wrong with it, or nothing."""
    unit = {"record": None, "person": "pid", "household": "household_id"}[worlds.facts.unit]
    pairs = worlds.first._con.cursor(), worlds.second._con.cursor()
    # What follows from what was bought reads no record.
    chosen = [one for one in questions(worlds.first, unit) if one.epsilon > 0]
    found = []
    for one in [*rng.sample(chosen, min(_ALONE, len(chosen))), *grown(worlds.first, rng, _GROWN)]:
        reasons = [difference(*pairs, one, rng.randrange(10**6))]
        for con in pairs:
            reasons.append(too_far(con, one, _UNITS))
            if isinstance(one, AggregatesQuestion):
                reasons.append(contribution(con, one, _UNITS))
        found.append("; ".join(f"{one.what}: {reason}" for reason in reasons if reason))
    return found


def compare(here: Comparison, rng: random.Random, fixed: list[Sent], count: int) -> None:
    for at in range(count):
        here.send(fixed.pop() if fixed and rng.random() < 0.3 else sent(rng))
        if here.first._in_transaction and rng.random() < 0.5:
            here.send(Sent("ROLLBACK"))
        if at % _CHANGED == 0:
            state = rng.getstate()
            change(here.first, rng, 0)
            rng.setstate(state)
            change(here.second, rng, 1)
        if at % _LOOKED == 0 or at == count - 1:
            here.look()
    if here.first._in_transaction:
        here.send(Sent("ROLLBACK"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.noninterference", description=__doc__)
    parser.add_argument("--statements", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    given = parser.parse_args()
    begun = time.monotonic()
    found, looked, wrong = run(given.statements, given.pairs, given.seed)
    print(
        f"DuckDB {duckdb.__version__}, seed {given.seed}: {found.sent:,} statements over {given.pairs} pairs, "
        f"{found.ran:,} ran, {len(found.differences)} differences, {len(found.unexpected)} unexpected errors; "
        f"{looked} answers alone, {len(wrong)} wrong; "
        f"{time.monotonic() - begun:.0f} s"
    )
    return 1 if found.differences or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
