"""Makes a database's policies those of a file.

Each decision is tried first, and those that can be made are one transaction of the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import duckdb

from duckanon.catalog.names import fold, literal, parts, quoted, spelled
from duckanon.catalog.openings import ALL_TABLES
from duckanon.errors import InvalidInput
from duckanon.functions.policies import Protect, fitting, tables_of
from duckanon.governance.instance import Governance
from duckanon.governance.ledger_state import LedgerState
from duckanon.governance.locations import Identity, seen
from duckanon.integrations.policy_file import PolicyFile, identity


@dataclass(frozen=True)
class Step:
    """One decision. subject: what it is about. make: makes it, and returns a sentence; raises InvalidInput."""

    subject: str
    make: Callable[[], str]


@dataclass(frozen=True)
class Outcome:
    """said: what changes, in sentences, each with its subject. refused: what cannot be made, and why."""

    said: tuple[tuple[str, str], ...]
    refused: tuple[tuple[str, str], ...]


class PolicySetting:
    """What a file would change in a database. con: a steward's connection to it."""

    def __init__(self, con: duckdb.DuckDBPyConnection, governance: Governance, file: PolicyFile) -> None:
        self._con, self._governance, self._file = con, governance, file
        ((self._database,),) = con.execute("SELECT current_database()").fetchall()

    @property
    def state(self) -> LedgerState:
        """What stands."""
        return self._governance.ledger.state(self._database)

    def begin(self, *, keep: bool) -> Outcome:
        """Set up a database that has no policies: all that the file says, or nothing.

        keep: whether it is written; else it is a trial. Raises InvalidInput for the first thing that cannot be.
        """
        if self.state.tables or self.state.opened:
            raise InvalidInput(
                "The database has policies already: duckanon policy apply changes what may be changed of them."
            )
        steps = [self._opening(text) for text in self._file.opened] + [*self._protecting(), *self._allotting()]
        said, problem = self._made(steps, keep=keep)
        if problem is not None:
            raise InvalidInput(f"{problem[0].subject}: {problem[1]}") from problem[1]
        return Outcome(tuple(said), ())

    def apply(self, *, keep: bool) -> Outcome:
        """Change what may be changed of policies that stand, and protect what is not protected yet.

        keep: whether that is written; else it is a trial. What cannot be changed so is refused by name.
        """
        refused = [*self._not_opened(), *self._left_out()]
        steps = [*self._closing(), *self._protecting(), *self._allotting()]
        while True:
            said, problem = self._made(steps, keep=False)
            if problem is None:
                break
            refused.append((problem[0].subject, str(problem[1])))
            steps.remove(problem[0])
        if keep and said:
            said, problem = self._made(steps, keep=True)
            if problem is not None:
                raise InvalidInput("Somebody else has changed policies meanwhile: try again.") from problem[1]
        return Outcome(tuple(said), tuple(refused))

    def _made(
        self, steps: Sequence[Step], *, keep: bool
    ) -> tuple[list[tuple[str, str]], tuple[Step, InvalidInput] | None]:
        """Make decisions in one transaction. Returns what they change, and the one that cannot be made."""
        said: list[tuple[str, str]] = []
        try:
            with self._governance.ledger.together(self._database, keep=keep):
                for step in steps:
                    before = self.state.number
                    try:
                        sentence = step.make()
                    except InvalidInput as error:
                        raise _Impossible(step, error) from error
                    if self.state.number != before:
                        said.append((step.subject, sentence))
        except _Impossible as impossible:
            return said, (impossible.step, impossible.error)
        return said, None

    def _opening(self, name: str) -> Step:
        def make() -> str:
            schema = name.removesuffix(".*")
            columns = list(self._columns(name)) if schema == name else self._tables(schema)
            return self._governance.decisions.open_table(name, seen(self._con, schema), columns)

        return Step(name, make)

    def _closing(self) -> Iterator[Step]:
        """Tables that are open and that the file does not open."""
        wanted = set(map(identity, self._file.opened))
        for table in sorted(self.state.opened, key=str):
            if table not in wanted:
                name = _opened_name(table)
                yield Step(name, partial(self._closed, name))

    def _closed(self, name: str) -> str:
        return self._governance.decisions.close_table(name, seen(self._con, name.removesuffix(".*")))

    def _tables(self, schema: str) -> list[str]:
        ((names,),) = self._con.execute(tables_of(schema)).fetchall()
        if names is None:
            raise InvalidInput(f"There is no schema {schema} in the database: make it, or correct its name.")
        return list(names)

    def _not_opened(self) -> Iterator[tuple[str, str]]:
        """Tables that the file opens and that are not open, also those that came to an open schema later."""
        for name in self._file.opened:
            schema = name.removesuffix(".*")
            if identity(name) not in self.state.opened:
                yield name, f"it is not open, and only open_table({literal(name)}) opens it."
            elif schema != name:
                later = [table for table in self._tables(schema) if not self._stays(identity(name), table)]
                if later:
                    yield (
                        name,
                        f"{_listed(later)} not open with it: only open_table({literal(name)}) opens what came later.",
                    )

    def _stays(self, schema: Identity, table: str) -> bool:
        """Whether a table of an open schema is open with it, or is none that the schema's opening is about."""
        identity = schema[0], fold(table)
        return identity in self.state.members or identity in self.state.opened or self.state.is_open(identity, [])

    def _left_out(self) -> Iterator[tuple[str, str]]:
        """Tables that are protected and that the file does not name."""
        wanted = set(map(identity, self._file.tables))
        for table in self.state.tables.values():
            if table.location.identity not in wanted:
                written_name = table.location.written
                yield written_name, f"it is protected, and only unprotect({literal(written_name)}) ends that."

    def _protecting(self) -> list[Step]:
        return [Step(name, partial(self._protected, name)) for name in self._file.ordered]

    def _protected(self, name: str) -> str:
        kinds = self._columns(name)
        request = Protect.read(self._file.protects(name))
        return self._governance.decisions.protect(name, seen(self._con, name), fitting(request, kinds), kinds)

    def _columns(self, name: str) -> dict[str, str]:
        try:
            return {row[0]: row[1] for row in self._con.execute(f"DESCRIBE {quoted(parts(name))}").fetchall()}
        except duckdb.Error:
            raise InvalidInput(f"There is no table {name} in the database: make it, or correct its name.") from None

    def _allotting(self) -> Iterator[Step]:
        for user, said in self._file.users.items():
            for population in self._file.populations:
                amount = said.allotments.get(population)
                yield Step(f"{user} of {population}", partial(self._allotted, user, population, amount))

    def _allotted(self, user: str, population: str, amount: Fraction | None) -> str:
        if amount is None and (user, population) not in self.state.allotments:
            return ""
        return self._governance.decisions.allot(self._database, user, population, amount)


class _Impossible(Exception):
    """A decision that cannot be made."""

    def __init__(self, step: Step, error: InvalidInput) -> None:
        super().__init__(str(error))
        self.step, self.error = step, error


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _opened_name(of: Identity) -> str:
    schema, table = of
    return f"{spelled([schema or ''])}.*" if table == ALL_TABLES else spelled([schema or "", table])
