"""Deliberately leaky variants of the guard. Each is a mistake that somebody could make; the harness must catch it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from duckanon.engines.randomness import double_geometric
from duckanon.errors import MachineFailure, UnsupportedQuery
from duckanon.governance import answers
from duckanon.guard import Guard, SharedCatalog
from duckanon.releases import mechanisms, noise
from duckanon.releases.mechanisms import aggregates, contribution, forms, reading
from duckanon.releases.paid_questions import AggregatesQuestion, PaidQuestion
from duckanon.rewrite import bind, metadata
from duckanon.rewrite.algebra.render import Renderer

Patch = pytest.MonkeyPatch


# --- what is decided --------------------------------------------------------------------------------------------------


def any_filter(patch: Patch) -> None:
    """A filter may cast, calculate and TRY."""
    patch.setattr(noise, "written", lambda one, types, today: Renderer().text(one))


def a_count_decides(patch: Patch) -> None:
    """A question about few records is refused before it is charged."""
    real = Guard._priced

    def priced(self: Guard, decision: Any) -> Any:
        for asked in decision.answers:
            ((many,),) = self._shared.own.execute(f"SELECT count(*) FROM {asked.location.name}").fetchall()
            if many < 30:
                raise UnsupportedQuery("There are too few records for noise.")
        return real(self, decision)

    patch.setattr(Guard, "_priced", priced)


def domain_of_the_data(patch: Patch) -> None:
    """The keys of an answer are those that records have."""
    real = forms.cells_of

    def form(asked: PaidQuestion) -> str:
        records = f'"{asked.location.schema}"."{asked.location.name}"'
        return re.sub(r'"[^"]*"\.duckanon\."domain_\w+"', records, real(asked))

    patch.setattr(forms, "cells_of", form)


# --- what is drawn ----------------------------------------------------------------------------------------------------


def counted_first(patch: Patch) -> None:
    """The exact counts are made before the charge, and an error is told."""
    any_filter(patch)
    real = answers.Answers.ensure

    def ensure(self: Any, question: Any, draw: Callable[[duckdb.DuckDBPyConnection], pa.Table]) -> bool:
        held: list[pa.Table] = []
        with self._ledger.cursor() as con:
            if not answers.is_stored(con, question):
                held.append(draw(con))
        return real(self, question, lambda _: held[0])

    patch.setattr(answers.Answers, "ensure", ensure)
    patch.setattr(mechanisms, "draw", _really_drawn)


def _really_drawn(con: duckdb.DuckDBPyConnection, asked: Any, source: Any = None) -> pa.Table:
    """Reads the records, and tells nothing of them."""
    from tests.noninterference.harness import injected

    mechanisms.exact(con, asked)
    return injected(con, asked)


def value_in_an_error(patch: Patch) -> None:
    """What goes wrong after the charge is told in DuckDB's words."""
    any_filter(patch)
    patch.setattr(mechanisms, "draw", _really_drawn)
    real = answers.Answers._charge

    def ensure(self: Any, question: Any, draw: Callable[[duckdb.DuckDBPyConnection], pa.Table]) -> bool:
        with self._ledger.cursor() as con:
            charged = real(self, con, question, question.charge)
            try:
                self._store(question, draw(con))
            except Exception as error:
                raise MachineFailure(f"The answer could not be made: {error}") from None
            return charged

    patch.setattr(answers.Answers, "ensure", ensure)


def repeat_by_content(patch: Patch) -> None:
    """A repeat is free while the table has the same number of records."""
    real = answers.is_stored
    seen: dict[Any, int] = {}

    def is_stored(con: duckdb.DuckDBPyConnection, question: Any) -> bool:
        ((many,),) = con.execute(f"SELECT count(*) FROM {question.location.name}").fetchall()
        # By connection of the instance: both databases of a pair have the same name.
        ((file,),) = con.execute("SELECT path FROM duckdb_databases() WHERE database_name = 'x'").fetchall()
        same = seen.setdefault((file, question.key), many) == many
        seen[file, question.key] = many
        if real(con, question) and not same:
            con.execute(f'DROP TABLE duckanon."{question.path[2]}"')
            con.execute("DELETE FROM duckanon.answers WHERE key = ?", [question.key])
        return real(con, question)

    patch.setattr(answers, "is_stored", is_stored)


def empty_cells_dropped(patch: Patch) -> None:
    """Cells without records have no row."""
    real = mechanisms.BY_KIND[AggregatesQuestion]

    def aggregates(con: duckdb.DuckDBPyConnection, asked: Any, source: Any) -> pa.Table:
        return real.draw(con, asked, source).filter(pa.array(mechanisms.exact(con, asked)[0].sum(axis=1) > 0))

    patch.setitem(mechanisms.BY_KIND, AggregatesQuestion, real._replace(draw=aggregates))


def unbounded(patch: Patch) -> None:
    """All records of a unit count."""
    patch.setattr(contribution, "bounded", lambda asked: "_dk_bounded AS (SELECT * FROM _dk_placed)")


def first_of_all(patch: Patch) -> None:
    """The first records are picked over all units together."""
    first = "_dk_bounded AS (SELECT * FROM _dk_placed QUALIFY row_number() OVER (ORDER BY hash(cell), cell, u) <= 10 * "
    patch.setattr(contribution, "bounded", lambda asked: f"{first}{asked.contributions})")


def bounded_before_the_filter(patch: Patch) -> None:
    """The first records of a unit are picked before the filter."""
    real = reading.placed

    def placed(con: duckdb.DuckDBPyConnection, asked: Any) -> str:
        path = ".".join(f'"{one}"' for one in asked.location.path)
        unit = f'"{asked.privacy_unit}"'
        first = f"(FROM {path} QUALIFY row_number() OVER (PARTITION BY {unit} ORDER BY rowid) <= {asked.contributions})"
        return real(con, asked).replace(f"FROM {path} AS", f"FROM {first} AS")

    patch.setattr(reading, "placed", placed)


def keys_by_collation(patch: Patch) -> None:
    """Keys are compared as the column's collation says."""
    patch.setattr(reading, "compared", lambda name, one: f"CAST({name} AS VARCHAR) COLLATE NOCASE")


def noise_of_the_count(patch: Patch) -> None:
    """The noise is narrower where there are few records."""
    real = aggregates.noised

    def noised(asked: Any, measure: Any, exact: Any, source: Any) -> Any:
        narrow = exact + double_geometric(asked.noise(measure).scale / 4, exact.shape, source)
        return real(asked, measure, exact, source) if exact.sum() > 20 else narrow

    patch.setattr(aggregates, "noised", noised)


# --- what is seen -----------------------------------------------------------------------------------------------------


def sizes_in_metadata(patch: Patch) -> None:
    """information_schema.tables tells DuckDB's estimate of a table's size."""
    sizes: dict[str, Any] = {}
    real, seen = SharedCatalog.catalog, metadata._seen

    def catalog(self: SharedCatalog, own: Mapping[Any, Any]) -> Any:
        sizes.update(self.own.execute("SELECT table_name, estimated_size FROM duckdb_tables()").fetchall())
        return real(self, own)

    def shown(found: Any) -> Any:
        return [replace(one, kind=f"{one.kind} {sizes.get(one.path[2])}") for one in seen(found)]

    patch.setattr(SharedCatalog, "catalog", catalog)
    patch.setattr(metadata, "_seen", shown)


def did_you_mean(patch: Patch) -> None:
    """A name that is not to be seen gets the nearest one that there is, closed ones too."""
    real = bind._Guarded.table

    def table(self: Any, node: Any, *more: Any) -> None:
        try:
            real(self, node, *more)
        except UnsupportedQuery as error:
            names = sorted(one.object for one in self._catalog.behind)
            raise UnsupportedQuery(f"{error} Did you mean {names}?") from None

    patch.setattr(bind._Guarded, "table", table)


def closed_or_missing(patch: Patch) -> None:
    """A closed table has another sentence than one that is not there."""
    real = bind._Guarded.table

    def table(self: Any, node: Any, *more: Any) -> None:
        try:
            real(self, node, *more)
        except UnsupportedQuery:
            if node.name in {one.object for one in self._catalog.behind}:
                raise UnsupportedQuery("The table is closed.") from None
            raise

    patch.setattr(bind._Guarded, "table", table)
