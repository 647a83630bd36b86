"""The catalog that PostgreSQL clients ask: pg_catalog and information_schema of what one user may see.

Queries are answered by an in-memory DuckDB that holds names and types only, as the user's own connection lists them. So
no catalog query can show anything else.
"""

from __future__ import annotations

import atexit
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

from duckanon.server.catalog_instance import CatalogInstance
from duckanon.server.catalog_listing import Listing
from duckanon.server.catalog_query import known, parsed
from duckanon.server.errors import PgError
from duckanon.server.noise_comments import Comment
from duckanon.server.settings import VERSION
from duckanon.server.types import BY_OID, OID, PgType, array_of, pg_type

# On the user's own connection: the columns that the user may see, and the kinds of what has them.
COLUMNS = (
    "SELECT table_catalog, table_schema, table_name, column_name, data_type, is_nullable "
    "FROM information_schema.columns ORDER BY table_catalog, table_schema, table_name, ordinal_position"
)
TABLES = "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables"
_MOST_ROWS = 200_000
# Instances that are kept though no session uses them. Each takes some 10 MB and a quarter of a second to make.
_KEPT = 8


@dataclass(frozen=True)
class Answer:
    """The answer to a catalog query. types: DuckDB's, by name. shown: the PostgreSQL types that are sent to clients."""

    names: Sequence[str]
    types: Sequence[str]
    shown: Sequence[PgType]
    rows: Sequence[Sequence[Any]]


class UserCatalog:
    """The catalog of one session. Sessions of a user that see the same share one instance.

    database: the name under which the user finds its tables. writes: whether the user may change them. settings: what
    SHOW tells, for pg_settings and current_setting().
    """

    def __init__(
        self, user: str, database: str, *, writes: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        self._user, self._database, self._writes = user, database, writes
        self._settings = {**_SETTINGS, **(settings or {})}
        self._instance: CatalogInstance | None = None
        # The number of the session that asks.
        self.process = 0

    def fill(
        self,
        columns: Iterable[Sequence[Any]],
        tables: Iterable[Sequence[Any]],
        comments: Iterable[Comment] = (),
    ) -> None:
        """List what the user may see: the answers to COLUMNS and TABLES, and comments on these."""
        self._instance = self._shared(Listing.of(self._database, columns, tables, comments))

    def answers(self, text: str) -> bool:
        """Whether a statement reads catalogs only, and so is answered here."""
        return parsed(text) is not None

    def parameters(self, text: str) -> Sequence[PgType]:
        """The types of a catalog query's parameters, by what they are cast to or compared with."""
        return known(text).parameters

    def describe(self, text: str) -> Answer:
        """The columns of a catalog query, without rows; its parameters are NULL."""
        return self._run(text, (), 5.0, 0)

    def run(self, text: str, parameters: Sequence[Any] = (), seconds: float = 5.0) -> Answer:
        """Answer a catalog query. Raises UnsupportedQuery and PgError, each with one sentence."""
        return self._run(text, parameters, seconds, _MOST_ROWS + 1)

    def close(self) -> None:
        """Release the instance."""
        self._instance = None

    def _shared(self, listing: Listing) -> CatalogInstance:
        return _SHARED.get(self._user, listing, self._settings, writes=self._writes)

    def _run(self, text: str, parameters: Sequence[Any], seconds: float, most: int) -> Answer:
        instance = self._instance
        if instance is None or instance.is_broken:
            self._instance = instance = self._shared(instance.listing if instance else Listing(self._database))
        sql, pg_types = instance.rewritten(text, parameters)
        columns, rows = instance.run(sql, seconds, most, self.process)
        if len(rows) > _MOST_ROWS:
            raise PgError("54000", f"The catalog's answer has more than {_MOST_ROWS:,} rows: ask for less.")
        names, kinds = [name for name, _ in columns], [kind for _, kind in columns]
        known = pg_types if len(pg_types) == len(kinds) else [None] * len(kinds)
        return Answer(names, kinds, [one or _shown(kind) for one, kind in zip(known, kinds, strict=True)], rows)


class _Shared:
    """The instances in use, and the last few that were in use."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._used: WeakValueDictionary[tuple[object, ...], CatalogInstance] = WeakValueDictionary()
        self._last: OrderedDict[tuple[object, ...], CatalogInstance] = OrderedDict()

    def get(self, user: str, listing: Listing, settings: Mapping[str, str], *, writes: bool) -> CatalogInstance:
        """The instance for a user and what the user sees, made if there is none.

        Making one takes no lock: two threads may make the same, and one of them is used on.
        """
        key = user, writes, listing, tuple(sorted(settings.items()))
        with self._lock:
            catalog_instance = self._used.get(key)
        made = catalog_instance if catalog_instance is not None and not catalog_instance.is_broken else None
        made = made or CatalogInstance(user, listing, settings, writes=writes)
        with self._lock:
            self._used[key] = self._last[key] = made
            self._last.move_to_end(key)
            while len(self._last) > _KEPT:
                self._last.popitem(last=False)
        return made

    def clear(self) -> None:
        """Release all instances."""
        with self._lock:
            self._used.clear()
            self._last.clear()


_SHARED = _Shared()
# DuckDB's connections end before Python does.
atexit.register(_SHARED.clear)
_SETTINGS = {
    "application_name": "",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "default_table_access_method": "heap",
    "default_tablespace": "",
    "integer_datetimes": "on",
    "IntervalStyle": "postgres",
    "is_superuser": "off",
    "jit": "off",
    "lc_collate": "C",
    "lc_ctype": "C",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "search_path": "main",
    "server_encoding": "UTF8",
    "server_version": VERSION,
    "server_version_num": "150000",
    "standard_conforming_strings": "on",
    "TimeZone": "UTC",
    "transaction_isolation": "read committed",
}


def _shown(kind: str) -> PgType:
    """The PostgreSQL type of a column: the numbers of objects are held as UINTEGER."""
    if kind == "UINTEGER":
        return OID
    return array_of(BY_OID[OID.oid]) if kind == "UINTEGER[]" else pg_type(kind)
