"""The statements that are about the session itself: transactions, settings, cursors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duckanon.server import commands, plans, wire
from duckanon.server.backends import Column, Result, catalog_columns, listed
from duckanon.server.errors import PgError
from duckanon.server.execution import Execution
from duckanon.server.portals import CHUNK, Portal
from duckanon.server.stream import Stream
from duckanon.server.types import BOOL, TEXT

if TYPE_CHECKING:
    from duckanon.server.service import Service

# The most open cursors and savepoints of one session.
MOST_PORTALS, _MOST_SAVEPOINTS = 100, 1_000
# The column in which PostgreSQL shows a plan.
_PLAN = "QUERY PLAN"


class SessionStatements(Execution):
    """Carries out the statements about the session."""

    def __init__(self, service: Service, stream: Stream) -> None:
        super().__init__(service, stream)
        # For each savepoint, by name: how many changes the session itself had made before it.
        self._savepoints: dict[str, int] = {}
        self._has_noticed = False

    async def _command(self, portal: Portal, command: commands.Command) -> Result | None:
        """Carry out a statement about the session. None: DuckDB must run it after all."""
        if isinstance(command, commands.Transaction):
            return await self._transaction(command)
        if isinstance(command, commands.Declare):
            return await self._declare(command, portal.values)
        if isinstance(command, commands.Fetch):
            return await self._fetch(command)
        if isinstance(command, commands.DiscardAll):
            return await self._discard()
        if isinstance(command, commands.UserChange):
            return await self._change_user(command)
        if isinstance(command, commands.Explain):
            return await self._explain(command, portal.values)
        return self._at_once(command)

    async def _change_user(self, command: commands.UserChange) -> Result:
        """Add, change or remove a user; at a user's removal the sessions end. It is no part of a transaction."""
        if not self._is_steward:
            raise PgError("42501", "Users are changed by stewards: ask one.")
        if command.action == "drop" and command.name == self._name:
            raise PgError("42501", "You cannot remove yourself: another steward can, or duckanon user remove.")
        if command.role and command.action == "alter":
            raise PgError("0A000", "A role does not change: DROP the user, and CREATE it with the other role.")
        users, role = self._service.users, command.role or "analyst"

        def change() -> None:
            if command.action == "drop":
                users.remove(command.name)
            elif command.action == "alter":
                users.change_password(command.name, command.password)
            elif command.name in users.read().users:
                raise PgError("42710", f"There is a user {command.name} already: ALTER USER gives another password.")
            else:
                users.add(command.name, role, command.password)

        await self._service.light_work(change)
        self._service.end_removed()
        return Result(f"{command.action.upper()} ROLE")

    def _at_once(self, command: commands.Command) -> Result | None:
        """As `_command`, for statements that need not wait."""
        if isinstance(command, commands.Set):
            return self._set(command)
        if isinstance(command, commands.SetConfig):
            return self._set_config(command)
        if isinstance(command, commands.Show):
            return self._shown(command)
        if isinstance(command, commands.CloseCursor):
            return self._close_cursor(command.name)
        if isinstance(command, commands.Deallocate):
            return self._deallocate(command.name)
        if isinstance(command, commands.EndStatement):
            return self._end_statement(command)
        assert isinstance(command, commands.Done)
        return Result(command.tag)

    async def _explain(self, command: commands.Explain, values: Sequence[Any]) -> Result | None:
        """The plan of a query, which does not run. A steward's EXPLAIN ANALYZE is DuckDB's own."""
        backend = self._backend
        assert backend is not None
        if command.runs:
            if self._is_steward:
                return None
            raise PgError("0A000", "An analyst's EXPLAIN shows a plan and runs nothing: leave out ANALYZE.")

        def explained() -> Result:
            result = backend.run(f"EXPLAIN (FORMAT JSON) {command.query}", values)
            rows: list[Any] = []
            while more := result.fetch(CHUNK):
                rows += more
            plan = plans.plan([column.name for column in result.columns or ()], rows)
            lines = [(text,) for text in plans.written(plan, command.form)]
            shown = listed("EXPLAIN", [Column(_PLAN, plans.TYPES[command.form])], lines)
            return replace(shown, decision=result.decision, spent=result.spent)

        return await self._work(explained)

    def _end_statement(self, command: commands.EndStatement) -> Result:
        """Whether the user has another session of this number. Of other users' sessions nothing is said."""
        ended = self._service.end_statement(self._name, command.process, session=command.session)
        if not ended:
            self._notice("01000", "You have no other session of this number.", "WARNING")
        return listed("SELECT", [Column(command.column, BOOL)], [(ended,)])

    def _close_cursor(self, name: str | None) -> Result:
        if name is None:
            self._portals.clear()
            return Result("CLOSE CURSOR ALL")
        if self._portals.pop(name, None) is None:
            raise PgError("34000", "There is no cursor of that name: it ends with its transaction.")
        return Result("CLOSE CURSOR")

    def _deallocate(self, name: str | None) -> Result:
        if name is None:
            self._prepared.clear()
            return Result("DEALLOCATE ALL")
        if self._prepared.pop(name, None) is None:
            raise PgError("26000", "There is no prepared statement of that name.")
        return Result("DEALLOCATE")

    async def _transaction(self, command: commands.Transaction) -> Result:
        assert self._backend is not None
        backend, action = self._backend, command.action
        if command.name:
            return self._savepoint(action, command.name)
        if action == "begin":
            if self._status != b"I":
                self._notice("25001", "A transaction has begun already.", "WARNING")
                return Result("BEGIN")
            if self._is_steward:
                await self._work(backend.begin)
            self._status = b"T"
            if backend.role == "analyst" and not self._has_noticed:
                self._has_noticed = True
                self._notice("00000", "Each statement is committed by itself: ROLLBACK undoes nothing here.", "NOTICE")
            return Result("BEGIN")
        if self._status == b"I":
            self._notice("25P01", "There is no transaction.", "WARNING")
            return Result(action.upper())
        is_kept = action == "commit" and self._status == b"T"
        self._status = b"I"
        self._savepoints.clear()
        self._end_portals()
        if self._is_steward:
            await self._work(backend.commit if is_kept else backend.rollback)
        return Result("COMMIT" if is_kept else "ROLLBACK")

    def _savepoint(self, action: str, name: str) -> Result:
        """Savepoints are recorded by name only, since drivers set them around each statement. Writes are not undone."""
        assert self._backend is not None
        if self._status == b"I":
            raise PgError("25P01", f"{action.upper()} is for a transaction: BEGIN one first.")
        if action == "savepoint":
            if len(self._savepoints) >= _MOST_SAVEPOINTS:
                raise PgError("54000", f"A transaction has {_MOST_SAVEPOINTS} savepoints at most: release some.")
            self._savepoints[name] = self._backend.stamp[1]
            return Result("SAVEPOINT")
        if name not in self._savepoints:
            raise PgError("3B001", "There is no savepoint of that name.")
        if action == "release":
            del self._savepoints[name]
            return Result("RELEASE")
        if self._backend.role == "steward" and self._backend.stamp[1] != self._savepoints[name]:
            raise PgError(
                "0A000", "What was written since the savepoint is not undone alone: ROLLBACK the transaction."
            )
        self._status = b"T"
        return Result("ROLLBACK")

    def _end_portals(self) -> None:
        """Close all cursors that end with their transaction."""
        self._portals = {name: portal for name, portal in self._portals.items() if portal.hold}

    def _set(self, command: commands.Set) -> Result | None:
        if not command.name:
            for name, value in self._settings.reset():
                self._out += wire.parameter_status(name, value)
            return Result("RESET")
        known = self._settings.get(command.name) is not None
        if not known and self._is_steward:
            # DuckDB's own, as far as the server's configuration lets it be set.
            return None
        self._set_to(command.name, command.value)
        return Result("SET")

    def _set_config(self, command: commands.SetConfig) -> Result:
        self._set_to(command.name, command.value)
        return listed("SELECT", [Column(command.column, TEXT)], [(self._settings.get(command.name),)])

    def _set_to(self, name: str, value: str | None) -> None:
        told_of = self._settings.set(name, value)
        if told_of is not None:
            self._out += wire.parameter_status(*told_of)

    def _shown(self, command: commands.Show) -> Result:
        if not command.name:
            rows = self._settings.all()
            return listed("SHOW", [Column("name", TEXT), Column("setting", TEXT)], rows)
        value = self._settings.get(command.name)
        if value is None:
            raise PgError(
                "42704", f"There is no setting {command.name[:60]} here: SHOW ALL lists those that there are."
            )
        return listed("SHOW", [Column(command.name, TEXT)], [(value,)])

    async def _declare(self, command: commands.Declare, values: Sequence[Any]) -> Result:
        if self._status == b"I" and not command.hold:
            raise PgError("25P01", "A cursor is declared in a transaction, or WITH HOLD.")
        if command.name in self._portals:
            raise PgError("42P03", "There is a cursor of that name: close it first.")
        if len(self._portals) >= MOST_PORTALS:
            raise PgError("54000", f"A session has {MOST_PORTALS} open cursors at most: close some.")
        cursor = Portal(command.query, None, values, (), (int(command.binary),), command.hold, declared=True)
        await self._start(cursor, 0)
        if cursor.result is None or cursor.result.columns is None:
            raise PgError("42601", "A cursor is declared for a query.")
        self._tell_noise(cursor)
        self._portals[command.name] = cursor
        return Result("DECLARE CURSOR")

    async def _fetch(self, command: commands.Fetch) -> Result:
        cursor = self._portal(command.name)
        source = cursor.result
        if not cursor.declared or source is None:
            raise PgError("34000", "FETCH is for cursors that were declared.")
        most = self._service.options.max_rows
        count = most + 1 if command.count is None else min(command.count, most + 1)

        def rows() -> list[Any]:
            found: list[Any] = []
            while len(found) < count:
                more = source.fetch(min(CHUNK, count - len(found)))
                found += more
                if not more:
                    break
            return found

        values = await self._work(rows)
        if command.move:
            return Result(f"MOVE {len(values)}")
        return listed("FETCH", source.columns or (), values)

    async def _discard(self) -> Result:
        if self._status != b"I":
            raise PgError("25001", "DISCARD ALL is for outside of transactions.")
        for name, value in self._settings.reset():
            self._out += wire.parameter_status(name, value)
        self._prepared.clear()
        await self._release()
        await self._connect()
        return Result("DISCARD ALL")

    async def _columns(
        self, text: str, command: commands.Command | None, types: Sequence[int]
    ) -> Sequence[Column] | None:
        """The columns of a statement, which is not run and costs nothing."""
        assert self._backend is not None
        backend = self._backend
        if isinstance(command, commands.Show):
            return self._shown(command).columns
        if isinstance(command, commands.Explain) and not command.runs:
            return [Column(_PLAN, plans.TYPES[command.form])]
        if isinstance(command, commands.EndStatement):
            return [Column(command.column, BOOL)]
        if isinstance(command, commands.SetConfig):
            return [Column(command.column, TEXT)]
        if isinstance(command, commands.Fetch) and not command.move:
            portal = self._portal(command.name)
            return portal.result.columns if portal.result is not None else None
        if (command is not None and not isinstance(command, commands.Explain)) or not text:
            return None
        catalogs = await self._catalog_of(text)
        if catalogs is not None:
            return catalog_columns(await self._work(lambda: catalogs.describe(text)))
        return await self._work(lambda: backend.describe(text, types))
