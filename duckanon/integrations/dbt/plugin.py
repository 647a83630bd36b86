"""The plugin: dbt-duckdb calls it with each connection and each cursor that it opens."""

from __future__ import annotations

from typing import Any

import duckdb
from dbt.adapters.duckdb.plugins import BasePlugin
from dbt.adapters.factory import FACTORY
from dbt_common.exceptions import DbtRuntimeError

from duckanon.connection import register
from duckanon.errors import InvalidInput
from duckanon.integrations.dbt.macro_functions import MacroFunctions
from duckanon.integrations.dbt.settings import Mode, Settings


class Plugin(BasePlugin):
    """Registers duckanon's functions on dbt's connections, and the functions behind the macros.

    Raises dbt's own error, with one sentence, for settings that it does not know.
    """

    def initialize(self, plugin_config: dict[str, Any]) -> None:
        beside = (self.creds.settings or {}) if self.creds is not None else {}
        try:
            self._settings = Settings.of(plugin_config, beside)
        except InvalidInput as error:
            raise DbtRuntimeError(str(error)) from None
        self._functions = MacroFunctions(self._settings)

    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        self._functions.register(register(conn))

    def configure_cursor(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Register the functions on a cursor, because temporary macros belong to one connection.

        Raises DbtRuntimeError if the guard is on and the project lacks the macros, since nothing would be guarded.
        """
        register(cursor)
        if self._settings.guard in (Mode.ON, Mode.AUDIT) and not _guarding():
            raise DbtRuntimeError(
                f"duckanon's guard is {self._settings.guard} in profiles.yml, but the project has none of its macros, "
                "so nothing would be guarded: run `duckanon dbt macros` in the project's folder."
            )


def _guarding() -> bool:
    """Whether the project has our macros. When dbt only tests a connection, it has not loaded any macros yet."""
    adapter: Any = FACTORY.adapters.get("duckdb")
    known = adapter.get_macro_resolver() if adapter is not None else None
    if known is None:
        return True
    names = {(macro.package_name, macro.name) for macro in known.macros.values()}
    ours = {package for package, name in names if name == "duckanon_judge"}
    return any((package, "duckdb__create_table_as") in names for package in ours)
