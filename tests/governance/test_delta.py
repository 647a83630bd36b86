"""Populations with a delta: one ledger of Rényi divergences, for pure and Gaussian noise."""

from __future__ import annotations

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

from duckanon.accounting import Charge, written
from duckanon.catalog.policy import Policy
from duckanon.errors import BudgetExhausted, InvalidInput
from duckanon.governance.budgets import count_width, left_in_words, left_of_edition, room_in_words
from duckanon.governance.concurrency import Asker, asking
from duckanon.governance.instance import Governance
from duckanon.governance.ledger_state import Population
from duckanon.renyi import renyi
from tests.governance.without_sql import CHARGE, answer, governance, protect, seen

KNOWN = renyi(Fraction(3), Fraction(1, 10**6))
TERMS: dict[str, Any] = {"epsilon": KNOWN.epsilon, "delta": KNOWN.delta}


def ask(made: Governance, number: int, charge: Charge = CHARGE, table: str = "persons") -> None:
    made.stored_or_drawn(table, seen(table), {"number": number}, charge, lambda: answer(number))


def gaussian(rho: Fraction) -> Charge:
    return Charge(KNOWN.of_rho(rho), "a count", "neighbours", "one record", f"gaussian, rho {written(rho)}")


def test_protect_says_what_is_promised() -> None:
    with duckdb.connect() as con:
        made = governance(con)
        assert protect(made, **TERMS, per_query=Fraction("0.01")) == (
            "main.persons is protected: all paid answers together are differentially private with epsilon 3, delta "
            "1e-6. Of 1.647901930005 (Rényi divergence of order 9.1) in all, 0 is spent and 1.647901930005 left. A "
            "charge protects one record. For 0.01 (Rényi divergence of order 9.1), a count is within 42 of the truth "
            "in 95 % of cases. What is left suffices for about 164 more counts at 0.01 each, within 42 of the truth."
        )
        (budget,) = made.budgets()
        told = [budget[name] for name in ("epsilon_exact", "delta", "promise", "order_exact", "left_in_words")]
        assert told == [
            *("1.647901930005", 1e-6, "epsilon 3, delta 1e-6", "9.1"),
            "about 164 more counts at 0.01 each, within 42 of the truth",
        ]
        assert [one["delta"] for one in made.decided()] == [1e-6]
        made.decisions.allot("memory", "ana", "main.persons", Fraction("0.05"))
        (allotted,) = made.allotments()
        assert allotted["left_in_words"] == "about 5 more counts at 0.01 each, within 42 of the truth"


def test_pure_and_gaussian_charges_stand_in_one_ledger() -> None:
    with duckdb.connect() as con:
        made = governance(con)
        protect(made, **TERMS)
        ask(made, 1)
        ask(made, 2, gaussian(Fraction(1, 1000)))
        ask(made, 3, replace(CHARGE, epsilon=Fraction(1, 2)))
        made.stored_or_perturbed("persons", seen("persons"), {"number": 4}, CHARGE, lambda: answer(4))
        told = [(one["action"], one["epsilon_exact"], one["noise"]) for one in made.lines()]
        assert told == [
            ("protect", None, None),
            # As randomised response; by e^2/2 in zero-concentrated terms it would be 0.0455.
            ("charge", "0.04078099568", "pure, epsilon 0.1"),
            ("charge", "0.0091", "gaussian, rho 0.001"),
            ("charge", "0.441494704281", "pure, epsilon 0.5"),
            ("perturb", "0.1", None),
        ]
        assert made.budgets()[0]["spent_exact"] == "0.491375699961"


def test_the_budget_is_spent_to_the_last_digit() -> None:
    with duckdb.connect() as con:
        made = governance(con)
        protect(made, **TERMS)
        ask(made, 1, gaussian(KNOWN.rho(KNOWN.capacity - Fraction("0.04078099568"))))
        with pytest.raises(
            BudgetExhausted, match=r"is more than the 0\.04078099568 left of 1\.647901930005\. Ask for less"
        ):
            ask(made, 2, replace(CHARGE, epsilon=Fraction("0.10000000001")))
        ask(made, 2)
        assert made.budgets()[0]["remaining_exact"] == "0"
        with pytest.raises(
            BudgetExhausted, match=r"\(Rényi divergence of order 9\.1\) is more than the 0 left of 1\.6479"
        ):
            ask(made, 3, gaussian(Fraction(1, 10**9)))


def test_a_delta_is_settled_when_the_population_is_first_named() -> None:
    shared: dict[str, Any] = {"population": "people", "privacy_unit": "person"}
    with duckdb.connect() as con:
        made = governance(con)
        protect(made, "a", **TERMS, **shared)
        with pytest.raises(InvalidInput, match=r"^The population people has delta 1e-6, which was settled when"):
            protect(made, "b", epsilon=KNOWN.epsilon, delta=Fraction(1, 10**9), **shared)
        protect(made, "b", epsilon=KNOWN.epsilon, **shared)
        protect(made, "pure", population="others", privacy_unit="person")
        with pytest.raises(InvalidInput, match=r"^The population others has no delta, which was settled when"):
            protect(made, "c", population="others", privacy_unit="person", delta=KNOWN.delta)
        made.decisions.unprotect("pure", seen("pure"))
        with pytest.raises(InvalidInput, match="has no delta"):
            protect(made, "pure", population="others", privacy_unit="person", delta=KNOWN.delta)
        state = made.ledger.state("memory")
        assert state.populations["people"].renyi == KNOWN
        assert state.populations["others"].renyi is None


def test_another_epsilon_keeps_the_order_in_which_charges_are_counted() -> None:
    with duckdb.connect() as con:
        made = governance(con)
        protect(made, **TERMS)
        ask(made, 1)
        made.decisions.unprotect("persons", seen("persons"))
        protect(made, epsilon=Fraction(6))
        (budget,) = made.budgets()
        assert (budget["order_exact"], budget["spent_exact"]) == ("9.1", "0.04078099568")
        assert budget["promise"] == "epsilon 6, delta 1e-6"
        # At another order more would fit; of an epsilon that is 3 more, 3 more fits at the same one.
        assert Fraction(budget["epsilon_exact"]) - KNOWN.capacity == 3


def test_what_was_spent_before_counts_in_the_ledgers_unit() -> None:
    with duckdb.connect() as con:
        made = governance(con)
        ask(made, 1)
        ask(made, 2)
        protect(made, **TERMS)
        (budget,) = made.budgets()
        # Of two charges of .1 together, by the simple bound, as every version reads it: more than twice one's.
        assert (budget["spent_exact"], budget["charges"]) == ("0.182", 2)


def test_caps_and_allotments_are_in_the_ledgers_unit() -> None:
    with duckdb.connect() as con:
        made = governance(con)
        protect(made, **TERMS, per_edition=Fraction("0.1"))
        made.decisions.allot("memory", "ann", "main.persons", Fraction("0.06"))
        assert made.lines()[-1]["what"] == "allot: 0.06 (Rényi divergence of order 9.1) to ann"
        with asking(Asker("ann")):
            ask(made, 1)
            with pytest.raises(
                BudgetExhausted, match=r"^ann may spend 0\.06 \(Rényi divergence of order 9\.1\) on main"
            ):
                ask(made, 2)
        ask(made, 2)
        with pytest.raises(
            BudgetExhausted, match=r"no more than 0\.1 \(Rényi .* and 0\.08156199136 is spent in this one"
        ):
            ask(made, 3)
        made.decisions.new_edition("persons", seen("persons"))
        ask(made, 3)


def test_per_query_is_within_the_capacity() -> None:
    with duckdb.connect() as con:
        made = governance(con)
        with pytest.raises(InvalidInput) as raised:
            protect(made, **TERMS, per_query=Fraction(2))
        assert str(raised.value) == (
            "per_query must not be more than 1.647901930005 (Rényi divergence of order 9.1), which is the budget, or "
            "per_edition: it is what one release may cost of them."
        )
        # Noise of Gaussians is as wide as one's whole charge at the square of its part: less may be asked for.
        protect(made, **TERMS, per_query=Fraction(2, 10**6))
        with pytest.raises(InvalidInput, match="is less than a hundred-millionth of the budget"):
            protect(made, "b", **TERMS, per_query=Fraction(1, 10**9))


def test_what_is_left_says_for_how_many_the_edition_has_room() -> None:
    """It said what the budget had room for, where the edition had room for none."""
    price = KNOWN.capacity / 10
    policy = Policy(Fraction(3), delta=KNOWN.delta, per_query=price, per_edition=3 * price)
    said = []
    for spent in range(4):
        population = Population("people", Fraction(3), renyi=KNOWN, spent=spent * price, in_edition=spent * price)
        left = left_of_edition(population, [policy, replace(policy, per_edition=None)])
        said.append((left_in_words(population, [policy]), room_in_words(KNOWN.capacity, price, KNOWN, left)))
    ends = [", 3 of them in this edition", ", 2 of them in this edition", ", 1 of them in this edition"]
    for (words, room), end in zip(said, [*ends, ", but none in this edition"], strict=True):
        assert words is not None
        assert words.endswith(f" of the truth{end}")
        assert room.endswith(f" at this price{end}.")
    without = replace(policy, per_edition=None)
    assert left_of_edition(Population("people", Fraction(3), renyi=KNOWN), [without]) is None


@pytest.mark.parametrize("changed", [{"capacity": "1.65"}, {"capacity": "3"}, {"order": "8"}, {"order": "1"}])
def test_a_ledger_that_gives_more_than_its_promise_is_not_read(changed: dict[str, str]) -> None:
    with duckdb.connect() as con:
        made = governance(con)
        protect(made, **TERMS)
        ((detail,),) = con.execute("SELECT detail FROM duckanon.ledger").fetchall()
        found = json.loads(detail)
        found["renyi"] |= changed
        con.execute("UPDATE duckanon.ledger SET detail = ?", [json.dumps(found)]).fetchall()
        with pytest.raises(
            InvalidInput, match=r"^Line 1 of the ledger gives main.persons more than epsilon 3, delta 1e-6"
        ):
            governance(con).ledger.state("memory")


def test_what_is_left_in_words() -> None:
    policy = Policy(Fraction(3), delta=KNOWN.delta, per_query=KNOWN.capacity / 2)
    population = Population("people", Fraction(3), renyi=KNOWN)
    width = f"{written(KNOWN.capacity / 2)} each, within {count_width(policy, KNOWN)} of the truth"
    assert left_in_words(population, []) is None
    assert left_in_words(population, [replace(policy, per_query=None)]) is None
    assert left_in_words(population, [policy]) == f"about 2 more counts at {width}"
    half = replace(population, spent=KNOWN.capacity / 2)
    assert left_in_words(half, [policy]) == f"1 more count at {width}"
    spent = replace(population, spent=KNOWN.capacity)
    assert left_in_words(spent, [policy]) == f"no count at {written(KNOWN.capacity / 2)}"
    assert left_in_words(population, [policy], KNOWN.capacity / 2) == f"1 more count at {width}"
    assert room_in_words(Fraction(1), Fraction(1), None) == ""
    assert [room_in_words(Fraction(one, 2), Fraction(1), KNOWN).split("room for ")[1] for one in (1, 2, 4)] == [
        f"{answers} at this price." for answers in ("no answer", "1 answer", "about 2 answers")
    ]


@pytest.mark.parametrize("seed", range(4))
def test_random_charges_never_exceed_the_promise(seed: int) -> None:
    chance = random.Random(seed)
    with duckdb.connect() as con:
        made = governance(con)
        protect(made, **TERMS)
        allowed = Fraction(0)
        for number in range(60):
            epsilon, rho = Fraction(chance.randint(1, 40), 100), Fraction(chance.randint(1, 40), 1000)
            pure = chance.random() < 0.5
            price = KNOWN.of_pure(epsilon) if pure else KNOWN.of_rho(rho)
            with suppress(BudgetExhausted):
                ask(made, number, replace(CHARGE, epsilon=epsilon) if pure else gaussian(rho))
                allowed += price
                continue
            assert allowed + price > KNOWN.capacity
        assert allowed <= KNOWN.capacity
        assert Fraction(made.budgets()[0]["spent_exact"]) == allowed


def test_thirty_two_threads_of_two_users(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "l.duckdb")) as con:
        made, sees = governance(con), seen("persons", database="l")
        protect(made, sees=sees, **TERMS)
        ready = threading.Barrier(32)
        price = KNOWN.capacity / 20
        made.decisions.allot("l", "bob", "main.persons", price * 5)

        def one(number: int) -> str | None:
            ready.wait()
            who = ("ann", "bob")[number % 2]
            with asking(Asker(who)), suppress(BudgetExhausted):
                charge = gaussian(KNOWN.rho(price))
                made.stored_or_drawn("persons", sees, {"number": number}, charge, lambda: answer(number))
                return who
            return None

        with ThreadPoolExecutor(32) as pool:
            got = list(pool.map(one, range(32)))
        # Bob may have 5 of the 20, and Ann asks for 16.
        assert got.count("ann") + got.count("bob") == 20
        assert got.count("bob") in (4, 5)
        assert made.budgets()[0]["remaining_exact"] == "0"
