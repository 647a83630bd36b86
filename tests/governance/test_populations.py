"""Random histories of decisions and charges, and what a reader of the ledger would add up by hand."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from fractions import Fraction
from typing import Any

import duckdb
import pytest

from duckanon.accounting import Charge
from duckanon.errors import BudgetExhausted, InvalidInput
from duckanon.governance.instance import Governance
from tests.amounts import sampled
from tests.governance.without_sql import answer, governance, protect, seen

TABLES = ("a", "b", "c", "d")
SEES = seen(*TABLES)


def step(made: Governance, chance: random.Random, number: int) -> None:
    table = chance.choice(TABLES)
    kind = chance.choice(("charge", "charge", "charge", "protect", "protect", "unprotect", "edition"))
    if kind == "charge":
        charge = Charge(Fraction(chance.randint(1, 4), 10), "a call", "neighbours")
        person = chance.choice((None, "person"))
        made.stored_or_drawn(table, SEES, {"number": number}, charge, lambda: answer(number), person=person)
    elif kind == "protect":
        terms: dict[str, Any] = {
            "epsilon": chance.choice((None, Fraction(1), Fraction(3, 2))),
            "population": chance.choice((None, "one", "TWO")),
            "privacy_unit": chance.choice((None, "person")),
            "per_edition": chance.choice((None, Fraction(1, 2))),
        }
        made.decisions.protect(table, SEES, {name: one for name, one in terms.items() if one is not None})
    elif kind == "unprotect":
        made.decisions.unprotect(table, SEES)
    else:
        made.decisions.new_edition(table, SEES)


@pytest.mark.parametrize("seed", sampled(range(12)))
def test_a_population_spends_what_its_tables_were_charged(seed: int) -> None:
    chance = random.Random(seed)
    with duckdb.connect() as con:
        made = governance(con)
        for number in range(60):
            with suppress(InvalidInput, BudgetExhausted):
                step(made, chance, number)
        lines = made.lines()
        by_hand(lines, {one["population"]: one for one in made.budgets()})
        assert {line["action"] for line in lines} >= {"charge", "protect", "unprotect"}


def by_hand(lines: list[dict[str, Any]], budgets: dict[str, dict[str, Any]]) -> None:
    """Go through the ledger with nothing but sums, and compare."""
    member: dict[str, str] = {}
    units: dict[str, set[str]] = {}
    policies: dict[str, dict[str, Any]] = {}
    epsilon: dict[str, Fraction] = {}
    charged: dict[str, list[Fraction]] = {f"main.{table}": [] for table in TABLES}
    in_edition: dict[str, Fraction] = {}
    for line in lines:
        table = line["tbl"]
        if line["action"] == "charge":
            cost, name = Fraction(line["epsilon_exact"]), member.get(table)
            charged[table].append(cost)
            assert line["population"] == name
            if name is not None:
                in_edition[name] = in_edition.get(name, Fraction(0)) + cost
            if table in policies:
                assert total(charged, member, name) <= epsilon[name or ""]
                cap = policies[table].get("per_edition")
                assert cap is None or in_edition[name or ""] <= Fraction(cap)
        elif line["action"] == "protect":
            policy = json.loads(line["what"].removeprefix("protect: "))
            # A policy that stands is changed by what takes nothing back.
            fixed = ("epsilon", "population", "privacy_unit")
            assert table not in policies or all(policies[table].get(one) == policy.get(one) for one in fixed)
            assert member.setdefault(table, policy["population"]) == policy["population"]
            units.setdefault(table, set()).add(str(policy.get("privacy_unit")))
            # While another of its tables is protected, the population's budget stays.
            if any(member[other] == policy["population"] for other in policies):
                assert epsilon[policy["population"]] == Fraction(policy["epsilon"])
            policies[table] = policy
            epsilon[policy["population"]] = Fraction(policy["epsilon"])
        elif line["action"] == "unprotect":
            del policies[table]
        else:
            assert table in policies
            in_edition[member[table]] = Fraction(0)
        if line["population"] in epsilon and line["remaining_exact"] is not None:
            left = epsilon[line["population"]] - total(charged, member, line["population"])
            assert Fraction(line["remaining_exact"]) == max(left, Fraction(0))
    assert all(len(one) == 1 for one in units.values())
    for name in set(member.values()):
        tables = [table for table, population in member.items() if population == name]
        assert len(tables) == 1 or {"person"} == set.union(*(units[table] for table in tables))
        standing = sorted(table for table in tables if table in policies)
        assert (name in budgets) == bool(standing)
        if standing:
            assert budgets[name]["tables"] == standing
            assert Fraction(budgets[name]["spent_exact"]) == total(charged, member, name)
            assert Fraction(budgets[name]["epsilon_exact"]) == epsilon[name]
            assert Fraction(budgets[name]["spent_in_edition_exact"]) == in_edition.get(name, Fraction(0))
            assert budgets[name]["charges"] == sum(len(charged[table]) for table in tables)


def total(charged: dict[str, list[Fraction]], member: dict[str, str], name: str | None) -> Fraction:
    """All charges on the tables that are a population's by now, whenever they were made."""
    return sum((sum(charged[table], Fraction(0)) for table in charged if member.get(table) == name), Fraction(0))


def test_a_budget_stays_while_another_table_spends_from_it() -> None:
    with duckdb.connect() as con:
        made = governance(con)
        shared: dict[str, Any] = {"population": "people", "privacy_unit": "person"}
        protect(made, "a", **shared)
        with pytest.raises(InvalidInput, match="The population people has a budget of epsilon 1: leave epsilon out"):
            protect(made, "b", epsilon=Fraction(2), **shared)
        protect(made, "b", **shared)
        made.decisions.unprotect("a", SEES)
        made.decisions.unprotect("b", SEES)
        protect(made, "b", epsilon=Fraction(2), **shared)
        assert [one["epsilon_exact"] for one in made.budgets()] == ["2"]
