"""The in-memory DuckDB that holds one emulated catalog: names, types and comments, and nothing else.

It has no files, no extensions and a locked configuration. It is filled once, so that any number of threads ask it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import Timer
from typing import Any

import duckdb

from duckanon.catalog.names import literal
from duckanon.errors import UnsupportedQuery
from duckanon.server import catalog_facts as facts
from duckanon.server.catalog_listing import Listing
from duckanon.server.catalog_query import known
from duckanon.server.catalog_rewrite import rewritten
from duckanon.server.errors import TOO_LONG, PgError
from duckanon.server.settings import VERSION
from duckanon.server.types import PgType

_OWNER = "steward"
_CONFIG: dict[str, Any] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_access": False,
    "memory_limit": "128MB",
    "python_enable_replacements": False,
    "threads": 1,
}


class CatalogInstance:
    """The catalog of a user, who sees what is listed. writes: whether the user may change it. settings: of SHOW."""

    def __init__(self, user: str, listing: Listing, settings: Mapping[str, str], *, writes: bool) -> None:
        self.listing = listing
        # Whether the instance can no longer be used, after an internal error of DuckDB.
        self.is_broken = False
        spelled = ", ".join(f"{kind['oid']}::UINTEGER: {literal(kind['spelled'])}" for kind in facts.types())
        told = ", ".join(f"{literal(name.lower())}: {literal(value)}" for name, value in settings.items())
        self._constants = {
            "user": literal(user),
            # Analysts own nothing, and do not see the names of the stewards.
            "owner": literal(user if writes else _OWNER),
            "database": literal(listing.database),
            "version": literal(f"PostgreSQL {VERSION} (duckanon, DuckDB {duckdb.__version__})"),
            "writes": str(writes).lower(),
            "settings": f"MAP {{{told}}}",
            "spelled": f"MAP {{{spelled}}}",
        }
        self._con = duckdb.connect(":memory:", config=dict(_CONFIG))
        find = listing.find
        # Programs first describe a query and then run it, and often send the same one again.
        self._kept = lru_cache(maxsize=64)(lambda text, item: rewritten(known(text), item, find))
        self._create(settings)
        self._fill()
        self._con.execute("SET lock_configuration = true")

    def rewritten(self, text: str, parameters: Sequence[Any]) -> tuple[str, Sequence[PgType | None]]:
        """The query for `run`, and the types of columns where DuckDB's do not suffice. Raises UnsupportedQuery."""
        # Other values are equal though their types differ, such as 1 and true.
        if all(parameter is None or isinstance(parameter, str) for parameter in parameters):
            return self._kept(text, tuple(parameters))
        return rewritten(known(text), parameters, self.listing.find)

    def run(
        self, sql: str, seconds: float, most: int, process: int = 0
    ) -> tuple[Sequence[tuple[str, str]], Sequence[tuple[Any, ...]]]:
        """The columns, with their DuckDB types, and at most so many rows. Raises UnsupportedQuery and PgError.

        process: the number of the session that asks, for pg_backend_pid().
        """
        with self._cursor(seconds) as cursor:
            if "pg_backend_pid" in sql.lower():
                cursor.execute(f"SET VARIABLE process = {int(process)}")
            cursor.execute(sql)
            columns = [(str(one[0]), str(one[1])) for one in cursor.description or ()]
            return columns, cursor.fetchmany(most) if most else []

    def _create(self, settings: Mapping[str, str]) -> None:
        create = ["CREATE SCHEMA pg", "CREATE SCHEMA info", "CREATE SCHEMA seen", *_STAGING]
        create += [relation.create for relation in facts.relations().values()]
        self._con.execute(";".join(create))
        rows = facts.types()
        kinds = facts.relations()[facts.PG, "pg_type"].columns
        columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in rows[0] if name in kinds}
        columns |= {name: [value] * len(rows) for name, value in _EVERY_TYPE.items()}
        self._insert("pg.pg_type", columns, {name: facts.held_as(kind) for name, kind in kinds.items()})
        self._insert("pg.pg_settings", {"name": list(settings), "setting": list(settings.values())}, {})
        self._run_script(facts.macros())
        self._run_script(facts.script("constants"))

    def _insert(self, table: str, columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, str]) -> None:
        shown = ", ".join(f"CAST(unnest(?) AS {kinds.get(name, 'VARCHAR')}) AS {name}" for name in columns)
        self._con.execute(f"INSERT INTO {table} BY NAME SELECT {shown}", list(columns.values()))

    def _run_script(self, text: str) -> None:
        # A colon before a word that is no constant stands before a type.
        said = re.sub(r"(?<!:):(\w+)\b", lambda item: self._constants.get(item[1], item[0]), text)
        self._con.execute(said)

    def _fill(self) -> None:
        listing = self.listing
        staged = {
            "seen.classes": listing.classes(),
            "seen.columns": listing.fields(),
            "seen.comments": listing.described(),
        }
        for table, rows in staged.items():
            if rows:
                kinds = _STAGED[table]
                self._insert(table, dict(zip(kinds, map(list, zip(*rows, strict=True)), strict=True)), kinds)
        self._run_script(facts.script("fill"))

    @contextmanager
    def _cursor(self, seconds: float) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection that is interrupted when the time is over."""
        cursor = self._con.cursor()
        timer = Timer(seconds, cursor.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield cursor
        except duckdb.InterruptException:
            raise PgError(*TOO_LONG) from None
        except duckdb.OutOfMemoryException:
            raise PgError("53200", "The catalog query needs more memory than it may have: ask for less.") from None
        except duckdb.FatalException:
            self.is_broken = True
            raise UnsupportedQuery("The catalog cannot answer this query: ask for less at once.") from None
        except duckdb.Error as error:
            # Only names and types are here, so DuckDB's error texts contain no value from the data.
            raise UnsupportedQuery(f"The catalog cannot answer this: {str(error).splitlines()[0][:200]}") from None
        finally:
            timer.cancel()
            cursor.close()


# What is the same for all types of pg_type that are listed.
_EVERY_TYPE: Mapping[str, Any] = {
    "typnamespace": 11,
    "typowner": 10,
    "typisdefined": True,
    "typrelid": 0,
    "typbasetype": 0,
    "typtypmod": -1,
    "typnotnull": False,
    "typndims": 0,
    "typsubscript": "-",
    "typmodin": "-",
    "typmodout": "-",
    "typanalyze": "-",
}
_STAGED = {
    "seen.classes": {
        "oid": "UINTEGER",
        "namespace": "UINTEGER",
        "schema_name": "VARCHAR",
        "name": "VARCHAR",
        "kind": "VARCHAR",
        "columns": "SMALLINT",
    },
    "seen.columns": {
        "class": "UINTEGER",
        "name": "VARCHAR",
        "place": "SMALLINT",
        "type": "UINTEGER",
        "modifier": "INTEGER",
        "dimensions": "INTEGER",
        "nullable": "BOOLEAN",
    },
    "seen.comments": {"class": "UINTEGER", "place": "INTEGER", "text": "VARCHAR"},
}
_STAGING = tuple(
    f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in columns.items())})"
    for table, columns in _STAGED.items()
)
