"""A release as a dbt model and as a command line, for who makes it elsewhere."""

from __future__ import annotations

import csv
import io
import re
import shlex

from duckanon.catalog.names import literal
from duckanon.integrations.explore.choices import names
from duckanon.integrations.explore.release_kinds import Copy, Kind
from duckanon.integrations.explore.source import Source
from duckanon.integrations.reading import Reading

# What begins an expression, a statement or a comment of Jinja.
_JINJA = re.compile(r"\{(?=[{%#])")
# Stands for the table, until the reference is put in its place. No name has it.
_MARK = "\0"


def dbt_model(kind: Kind) -> str:
    """The release as a dbt model. Names that Jinja would read as its own are written as texts of Jinja."""
    query = _JINJA.sub('{{ "{" }}', kind.query(of=_MARK))
    name = kind.table.name.replace("\\", "\\\\").replace('"', '\\"')
    query = query.replace(_MARK, f'{{{{ ref("{name}") }}}}')
    return "{{ config(materialized='table') }}\n\n" + (
        query if query.startswith(("SELECT", "WITH")) else f"SELECT *\n{query}"
    )


def command(kind: Kind, source: Source, out: str, statements: list[str]) -> str:
    """The release as a command. out: the file that it writes, if it does. statements: that make it in a database."""
    if isinstance(kind, Copy):
        return _anonymize(kind, source, out)
    if source.is_database:
        return shlex.join(["duckanon", "sql", str(source.path), "--role", "steward", "-c", "; ".join(statements)])
    load = source.loading or f"CREATE TABLE {kind.table.sql} AS FROM {literal(str(source.path))}"
    return shlex.join(["duckanon", "sql", "-c", f"{load}; COPY ({kind.query()}) TO {literal(out)}"])


def script(source: Source, create: str, export: str | None) -> str:
    """The whole way of a data file as SQL: from reading it to the file of the release."""
    unread = "-- DuckDB does not read this file as it is: take the command line, or save it as CSV in UTF-8 first."
    unwritten = "-- DuckDB writes no such file: take the command line, or write CSV or Parquet."
    load = unread if source.loading is None else f"{source.loading};"
    return "\n\n".join([load, f"{create};", unwritten if export is None else f"{export};"])


def _said(reading: Reading) -> list[str]:
    """The options that say how a text file is read."""
    given = [("--encoding", reading.encoding), ("--decimal", reading.decimal), ("--date-format", reading.date_format)]
    given += [("--null", text) for text in reading.null]
    return [part for name, value in given if value is not None for part in (name, value)]


def _anonymize(kind: Copy, source: Source, out: str) -> str:
    named = kind.asked.named
    given: dict[str, object] = {
        "table": kind.table.sql if source.is_database else None,
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
    return shlex.join(["duckanon", "k-anonymize", str(source.path), out, *_said(source.reading), *options])


def _typed(value: object) -> str:
    """A value as an option of the command line takes it. Names with a comma are put in double quotes."""
    if not isinstance(value, list):
        return str(value)
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(value)
    return out.getvalue()
