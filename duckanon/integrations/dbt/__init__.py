"""dbt: the plugin for dbt-duckdb, named in profiles.yml as `module: duckanon.integrations.dbt`.

Its macros are in `sql/dbt`, from where `duckanon dbt macros` copies them into a project. Only
the plugin imports dbt, so the command line and `audit` work without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckanon.integrations.dbt.plugin import Plugin

__all__ = ["Plugin"]


def __getattr__(name: str) -> Any:
    if name == "Plugin":
        from duckanon.integrations.dbt import plugin

        return plugin.Plugin
    raise AttributeError(f"module 'duckanon.integrations.dbt' has no attribute '{name}'")
