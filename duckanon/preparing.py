"""prepare: a steward's call that plans tables of counts and sums together, shows the plan, and buys it.

The plan follows from the call, the policy and the domains. It reads no record; what is bought is charged first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import cached_property
from math import inf, prod
from typing import TYPE_CHECKING, Any, TypeAlias

from duckanon.accounting import written
from duckanon.catalog.names import TableName, fold
from duckanon.catalog.snapshot import Protected
from duckanon.errors import DuckanonError, InvalidInput
from duckanon.governance.answers import Stale, check_price, is_answered
from duckanon.governance.ledger_state import LedgerState
from duckanon.governance.locations import Location
from duckanon.governance.preparations import Design, Preparation, PreparedNumber, Table
from duckanon.guard import Guard, SharedCatalog
from duckanon.releases import mechanisms
from duckanon.releases.key_domains import numbered
from duckanon.releases.looked_up import LookedUp
from duckanon.releases.measures import MOST_CELLS, Number, Sums
from duckanon.releases.noise import NotOffered
from duckanon.releases.numbers import Columns
from duckanon.releases.paid_questions import Key, basis
from duckanon.releases.paid_questions import key as key_of
from duckanon.releases.preparations import MOST_STEPS, FollowingQuestion, PreparationQuestion
from duckanon.renyi import Renyi
from duckanon.rewrite.quote import in_one_line
from duckanon.rewrite.statements import statements

if TYPE_CHECKING:
    from duckanon.functions.preparations import Prepare

# A table as its folded columns, and whether each is a number whose sums are wanted.
Asked: TypeAlias = frozenset[tuple[str, bool]]
# The most cells of all measured tables together.
_MOST_MEASURED = 20_000_000
# How often a plan for an accuracy is made anew, and by how much more deviations than needed.
_MOST_PLANS, _A_LITTLE_MORE = 20, Fraction(1001, 1000)
# Seconds for a cell that is measured, and for anything.
_OF_A_CELL, _OF_ALL = 2e-6, 0.2


def prepared(shared: SharedCatalog, request: Prepare, texts: Sequence[str], location: Location) -> list[dict[str, Any]]:
    """The rows of a call. texts: of its files of queries. location: of its table."""
    state = shared.governance.ledger.state(location.database, shared.own)
    if location.identity not in state.tables:
        raise InvalidInput(
            f"{request.tbl} is not protected, so nothing is prepared of it: protect it first, with delta."
        )
    schema, table = location.identity
    name = TableName(fold(location.database), schema or "", table)
    catalog, _, _ = shared.catalog({})
    offer = _Offer(shared, name, catalog.protected[name], state)
    question = offer.question(request, _queries(request, texts))
    known = state.preparations.get(question.key)
    question = replace(question, **offer.planned(request, question, known))
    population = state.population(location)
    assert population is not None
    assert population.budget is not None
    if request.buy:
        check_price(question.epsilon, population.budget.total, population.renyi)
        _buy(shared, question)
        known = shared.governance.ledger.state(location.database).preparations.get(question.key)
    with shared.turn():
        is_made = is_answered(shared.own, location.database, question.key)
    told = {
        "price": float(question.epsilon),
        "price_exact": written(question.epsilon),
        "remaining": float(population.budget.remaining),
        "seconds": _OF_ALL + _OF_A_CELL * _measured_cells(question.design),
        "prepared_on": known.day if known is not None and is_made else None,
    }
    return [{**row, **told} for row in question.design.rows(question.contributions)]


def _queries(request: Prepare, texts: Sequence[str]) -> list[str]:
    """All queries of a call, each once. Raises InvalidInput for files without any."""
    read = [statement.text for text in texts for statement in statements(text)]
    if texts and not read:
        raise InvalidInput(f"{request.file} holds no query: name a file with the queries of a dashboard.")
    return list(dict.fromkeys((*request.queries, *read)))


def _buy(shared: SharedCatalog, question: PreparationQuestion) -> None:
    try:
        if any(open_rows.content != shared.content(open_rows) for open_rows in question.looks_up):
            raise Stale
        shared.governance.answers.ensure(question.purchase, lambda con: mechanisms.draw(con, question))
    except Stale:
        raise InvalidInput(
            "The policy, the edition or an open table has changed since the call was read: repeat it."
        ) from None


def _measured_cells(design: Design) -> int:
    return sum(prod(design.workload.shape(numbers)) for numbers in design.measured)


class _Offer:
    """What may be prepared of a protected table."""

    def __init__(self, shared: SharedCatalog, name: TableName, protected: Protected, state: LedgerState) -> None:
        self._shared, self._name, self._protected = shared, name, protected
        label = protected.policy.population
        if not protected.stands or protected.stored is None:
            raise InvalidInput("The table does not stand as its policy needs it: protect it again.")
        if protected.renyi is None:
            raise InvalidInput(
                f"The population {label} has no delta, and what is prepared has Gaussian noise: name one where a "
                "population is first protected, as in delta := 1e-9."
            )
        self._renyi: Renyi = protected.renyi
        self._stored = {fold(column): column for column in protected.stored.columns}
        self._state = state

    # --- the question -------------------------------------------------------------------------------------------------

    def question(self, request: Prepare, queries: Sequence[str]) -> PreparationQuestion:
        """What is asked for, not planned yet. Raises InvalidInput."""
        tables = [self._table(texts) for texts in request.by]
        looked_up: dict[str, _Column] = {}
        for query in queries:
            for following in self._asked(query):
                tables += _tables(following)
                for name, column in _looked_up(following).items():
                    looked_up[name] = column.beside(looked_up.get(name))
        if not tables:
            raise InvalidInput(f"None of the queries reads {request.tbl}: name the table that they read.")
        tables = _needed(tables)
        columns = sorted({each for table in tables for each in table})
        named = {name: self._key(name) or looked_up[name].as_key for name, is_number in columns if not is_number}
        numbers = {
            name: looked_up[name].as_number if name in looked_up else self._number(name)
            for name, is_number in columns
            if is_number
        }
        keys = list(named.values())
        places = {
            pair: at
            for at, pair in enumerate([*((text, False) for text in named), *((number, True) for number in numbers)])
        }
        wanted = dict.fromkeys(tuple(sorted(places[each] for each in table)) for table in tables)
        ordered = tuple(sorted(wanted, key=lambda one: (len(one), one)))
        preparation_question = self._question(keys, list(numbers.values()), ordered, _amount(request))
        used = tuple(column.found for name, column in sorted(looked_up.items()) if name in named or name in numbers)
        digests = {lookup.name: lookup.digest for lookup in used}
        complete = frozenset(key.column for key in keys if self._is_complete(key, looked_up))
        design = replace(preparation_question.design, looked_up=digests, complete=complete)
        return replace(preparation_question, design=design, looked_up=used)

    def _question(
        self, keys: Sequence[Key], numbers: Sequence[Number], tables: tuple[Table, ...], asked: tuple[str, ...]
    ) -> PreparationQuestion:
        design = self._design(keys, numbers, tables)
        for table in tables:
            if design.cells(table) > MOST_CELLS:
                raise InvalidInput(
                    f"The table by {', '.join(design.columns[at] for at in table)} has more than {MOST_CELLS:,} cells: "
                    "prepare it by fewer columns."
                )
        return PreparationQuestion(
            **basis(self._protected, Fraction(0)),
            keys=tuple(keys),
            numbers=tuple(numbers),
            design=design,
            asked=asked,
        )

    def _design(self, keys: Sequence[Key], numbers: Sequence[Number], tables: tuple[Table, ...]) -> Design:
        """Tables of keys and numbers, not planned yet."""
        return Design(
            tuple(key.column for key in keys),
            tuple(map(self._size, keys)),
            tuple(PreparedNumber(number.column, number.low, number.step, number.steps) for number in numbers),
            tables,
            {},
        )

    def _table(self, columns: Sequence[str]) -> Asked:
        """A table that is asked for by its columns: those with a domain are keys. Raises InvalidInput."""
        folded = frozenset(map(fold, columns))
        for column in columns:
            if fold(column) not in self._stored:
                raise InvalidInput(f'by names a column "{column}", which {self._name.object} does not have.')
        numbers = sorted(text for text in folded if self._key(text) is None)
        for number in numbers:
            self._number(number)
        if len(numbers) > 1:
            raise InvalidInput(
                f"A table has one number at most, and {' and '.join(numbers)} have no domain: list a table for each."
            )
        return frozenset((text, text in numbers) for text in folded)

    def _key(self, column: str) -> Key | None:
        """The key of a column, if analysts may group by it."""
        policy = self._protected.policy
        if column not in set(map(fold, (*policy.public, *policy.hierarchy))) - set(map(fold, policy.drop)):
            return None
        key = key_of(self._protected, column)
        # What is found with noise is an answer of its own, and no list that was known beforehand.
        return None if key is None or key.found or key.sought is not None else key

    def _number(self, column: str) -> Number:
        """A column as a number with bounds. Raises InvalidInput where it is none."""
        assert self._protected.stored is not None
        dropped = set(map(fold, self._protected.policy.drop))
        try:
            if column in dropped:
                raise NotOffered("The policy drops it.")
            return Columns(self._protected, self._protected.stored.types, date.today()).number(column, MOST_STEPS)
        except NotOffered:
            raise InvalidInput(
                f"Tables are prepared by public columns with a domain, and of numbers with bounds: {column} is none of "
                "these in the policy."
            ) from None

    def _is_complete(self, key: Key, looked_up: Mapping[str, _Column]) -> bool:
        """Whether no record's value lies outside of a key's domain, by the column's type.

        Those are BOOLEANs and ENUMs all of whose values are listed, where NULL is listed too, or DuckDB lets no record
        have it. And what is looked up in an open table, if what finds nothing has NULL, and whether there is a row.
        """
        name, stored = fold(key.column), self._protected.stored
        assert stored is not None
        if name in looked_up:
            step = looked_up[name].found.look_up
            if step.whether is not None:
                return all(look_up.optional for look_up in step.chain)
            return step.version is None and step.optional and len(step.chain) == 1
        kind = stored.types[name]
        if kind != "BOOLEAN" and not kind.startswith("ENUM("):
            return False
        with self._shared.lock:
            own = self._shared.own
            listed = {value for value, _ in own.sql(f"FROM {numbered(stored.path[0], key)} AS _dk_listed").fetchall()}
            values = {True, False}
            if kind != "BOOLEAN":
                ((named,),) = own.sql(f"SELECT system.main.enum_range(CAST(NULL AS {kind}))").fetchall()
                values = set(named)
        # A table has two cells of each attribute at least.
        return values <= listed and (None in listed or name in stored.required) and len(listed) > 1

    def _size(self, key: Key) -> int:
        with self._shared.lock:
            assert self._protected.stored is not None
            source = numbered(self._protected.stored.path[0], key)
            rows = self._shared.own.sql(f"FROM {source} AS _dk_listed").aggregate("system.main.count(*)").fetchall()
        return int(rows[0][0])

    # --- queries ------------------------------------------------------------------------------------------------------

    def _asked(self, statement: str) -> list[FollowingQuestion]:
        """What answers a query, if all is prepared; nothing for a query of other tables. Raises InvalidInput."""
        try:
            return Guard(self._shared).following(statement, self._name, self._whole)
        except DuckanonError as no:
            raise InvalidInput(f"{in_one_line(statement)} is not answered from prepared tables: {no}") from None

    @cached_property
    def _whole(self) -> Preparation:
        """As if the table of all columns were prepared."""
        keys = [key for one in sorted(self._stored) if (key := self._key(one)) is not None]
        numbers = []
        for text in sorted(self._stored):
            try:
                numbers.append(self._number(text))
            except InvalidInput:
                continue
        assert self._protected.stored is not None
        design = self._design(keys, numbers, (tuple(range(len(keys) + len(numbers))),))
        location = Location(*self._protected.stored.path)
        policy = self._protected
        return Preparation(
            "", location, policy.version, policy.edition, policy.policy.contributions, design, date.today(), 0
        )

    # --- the plan -----------------------------------------------------------------------------------------------------

    def planned(self, request: Prepare, question: PreparationQuestion, known: Preparation | None) -> dict[str, Any]:
        """The fields of a planned question: of a known one as it was planned. Raises InvalidInput."""
        design = question.design if known is None else known.design
        if known is None:
            design = replace(design, measured=self._measured(request, question))
        if _measured_cells(design) > _MOST_MEASURED:
            raise InvalidInput(f"The tables have more than {_MOST_MEASURED:,} cells together: prepare fewer.")
        return {"design": design, "epsilon": self._renyi.of_rho(design.plan.rho)}

    def _measured(self, request: Prepare, question: PreparationQuestion) -> dict[Table, Fraction]:
        from duckanon.engines.marginals.planner import plan

        if request.epsilon is not None:
            return dict(plan(question.design.workload, self._renyi.rho(request.epsilon)).measured)
        assert request.within is not None
        return _kept_within(question.design, question.contributions, request.within)


def _kept_within(design: Design, rows: int, within: Fraction) -> dict[Table, Fraction]:
    """The cheapest measurements for which 95 % of all numbers of records are within a distance of the truth."""
    from duckanon.engines.marginals.intervals import factor
    from duckanon.engines.marginals.planner import plan_within

    # How many deviations an interval has follows from the noise, which follows from that: a few times are enough.
    deviations = Fraction(factor(inf))
    for _ in range(_MOST_PLANS):
        allowed = (within / deviations / rows) ** 2
        found = dict(plan_within(design.workload, [allowed] * len(design.tables)).measured)
        needed = Fraction(replace(design, measured=found).factor(rows))
        if needed <= deviations:
            return found
        deviations = needed * _A_LITTLE_MORE
    raise InvalidInput(
        f"No noise is so little that numbers of several tables are known to be within {float(within):g} in 95 % of "
        "cases: allow 2 or more."
    )


def _tables(following: FollowingQuestion) -> list[Asked]:
    """The tables from which an answer follows."""
    design = following.preparation.design
    tables = [following.with_number(measure) for measure, _ in following.measures]
    return [frozenset((fold(design.columns[at]), at >= len(design.keys)) for at in table) for table in tables]


def _needed(tables: Sequence[Asked]) -> list[Asked]:
    """The tables without those of a number that another one has as a key: its sums follow from that, too."""
    as_keys = [frozenset((name, False) for name, _ in table) for table in tables]
    return [
        table
        for table, keys in zip(tables, as_keys, strict=True)
        if table == keys or not any(keys <= other for other in tables)
    ]


@dataclass(frozen=True)
class _Column:
    """A column that queries look up, as a key, as a number, or as both in several of them."""

    found: LookedUp
    key: Key | None = None
    number: Number | None = None

    def beside(self, other: _Column | None) -> _Column:
        """As both."""
        return self if other is None else _Column(self.found, self.key or other.key, self.number or other.number)

    @property
    def as_key(self) -> Key:
        """It as a key, as which a table has it."""
        assert self.key is not None
        return self.key

    @property
    def as_number(self) -> Number:
        """It as a number."""
        assert self.number is not None
        return self.number


def _looked_up(following: FollowingQuestion) -> dict[str, _Column]:
    """The columns that an answer looks up, by folded names."""
    keys = {fold(key.column): key for key in following.keys}
    summed = {sums.number.column for sums, _ in following.measures if isinstance(sums, Sums)} - {*following.of_keys}
    # As they are stored, also where a multiple is asked for.
    numbers = {
        fold(number.column): Number(number.column, number.low, number.step, number.steps)
        for number in following.preparation.design.numbers
        if number.column in summed
    }
    return {
        fold(lookup.name): _Column(lookup, keys.get(fold(lookup.name)), numbers.get(fold(lookup.name)))
        for lookup in following.looked_up
    }


def _amount(request: Prepare) -> tuple[str, ...]:
    if request.epsilon is not None:
        return "epsilon", written(request.epsilon)
    assert request.within is not None
    return "within", written(request.within)
