"""A release as a dbt model and as a command line, for who makes it elsewhere."""

from __future__ import annotations

import csv
import io
import re
import shlex
from pathlib import Path

from duckanon.catalog.names import literal
from duckanon.integrations.explore.choices import names
from duckanon.integrations.explore.release_kinds import Copy, Kind

# What begins an expression, a statement or a comment of Jinja.
_JINJA = re.compile(r"\{(?=[{%#])")
# Stands for the table, until the reference is put in its place. No name has it.
_MARK = "\0"


def dbt_model(kind: Kind) -> str:
    """The release as a dbt model. Names that Jinja would read as its own are written as texts of Jinja."""
    query = _JINJA.sub('{{ "{" }}', kind.query(of=_MARK))
    name = kind.table.name.replace("\\", "\\\\").replace('"', '\\"')
    query = query.replace(_MARK, f'{{{{ ref("{name}") }}}}')
    return "{{ config(materialized='table') }}\n\n" + (query if query.startswith("SELECT") else f"SELECT *\n{query}")


def command(kind: Kind, path: Path, out: str, statements: list[str], *, is_database: bool) -> str:
    """The release as a command. out: the file that it writes, if it does. statements: that make it in a database."""
    if isinstance(kind, Copy):
        return _anonymize(kind, path, out, is_database=is_database)
    if is_database:
        return shlex.join(["duckanon", "sql", str(path), "--role", "steward", "-c", "; ".join(statements)])
    load = f"CREATE TABLE {kind.table.sql} AS FROM {literal(str(path))}"
    return shlex.join(["duckanon", "sql", "-c", f"{load}; COPY ({kind.query()}) TO {literal(out)}"])


def _anonymize(kind: Copy, path: Path, out: str, *, is_database: bool) -> str:
    named = kind.asked.named
    given: dict[str, object] = {
        "table": kind.table.sql if is_database else None,
        "qi": names(kind.asked.qi),
        "k": kind.k,
        "method": None if kind.asked.method == "auto" else kind.asked.method,
        "categorical": named["categorical"],
        "bands": [f"{name}={width}" for name, width in kind.asked.bands],
        "sensitive": named["sensitive"],
        "l": named["l"],
        "t": named["t"],
        "unit": named["unit"],
        "max-suppression": named["max_suppression"],
        "drop": kind.asked.left_out,
    }
    options = [
        part for name, value in given.items() if value not in (None, []) for part in (f"--{name}", _typed(value))
    ]
    return shlex.join(["duckanon", "k-anonymize", str(path), out, *options])


def _typed(value: object) -> str:
    """A value as an option of the command line takes it. Names with a comma are put in double quotes."""
    if not isinstance(value, list):
        return str(value)
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(value)
    return out.getvalue()
