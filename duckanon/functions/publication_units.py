"""How the audit reads the records of a protected table: for how many each row stands, and the levels of their codes.

Rows that stand for several records count as so many, in all publications of the table alike. Who reads some of them as
counts of rows and others as counts of records would learn how many rows there are, of which no proof speaks.
"""

from __future__ import annotations

from dataclasses import replace

import duckdb

from duckanon.catalog.names import fold, identifier
from duckanon.catalog.publication import Candidate, Earlier, Terms
from duckanon.errors import InvalidInput
from duckanon.functions.publication_codes import leveled
from duckanon.functions.publication_numbers import kind_of
from duckanon.functions.schema import is_number


def read_as(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> Candidate:
    """The same with records as all publications count them, and their levels of codes. Raises InvalidInput."""
    return leveled(con, _counted(con, candidate))


def check_counted_alike(candidate: Candidate) -> None:
    """Raises InvalidInput where the rows of the table count otherwise in an earlier publication."""
    count = candidate.terms.count
    for publication in candidate.earlier:
        if fold(publication.count or "") != fold(count or ""):
            raise InvalidInput(
                f"{candidate.name} is not published: in {publication.name} a row of {candidate.label} stands for "
                f"{_in_words(publication.count)}, and here for {_in_words(count)}. Publish all releases of one table "
                "alike."
            )


def _in_words(count: str | None) -> str:
    return "one record" if count is None else f'as many records as "{count}" says'


def _counted(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> Candidate:
    check_counted_alike(candidate)
    name = candidate.terms.count
    if name is None:
        return candidate
    if not is_number(kind_of(candidate, name)):
        raise InvalidInput(f"{candidate.label} has no column \"{name}\" of whole numbers: name it, as in count := 'n'.")
    if candidate.policy.privacy_unit is not None:
        raise InvalidInput(
            f"The policy of {candidate.label} has a privacy unit, and a row that stands for several records does not "
            "say whose they are: leave count out, or publish from a table whose policy protects records."
        )
    tables: list[Earlier | Terms] = [*candidate.earlier, candidate.terms]
    if any(fold(name) == fold(column) for table in tables for column in table.read):
        raise InvalidInput(f'"{name}" says for how many records a row stands: leave it out of variables and given.')
    whole = f"TRY_CAST({identifier(name)} AS BIGINT)"
    ((flawed,),) = con.execute(
        f"SELECT system.main.count(*) FROM {candidate.of} "
        f"WHERE ({whole} = {identifier(name)} AND {identifier(name)} >= 0) IS NOT true"
    ).fetchall()
    if flawed:
        raise InvalidInput(
            f'Column "{name}" holds NULL, negative numbers, or numbers that are not whole: correct it, or leave those '
            "rows out."
        )
    of = f"(SELECT * REPLACE ({whole} AS {identifier(name)}) FROM {candidate.of} WHERE {whole} > 0)"
    return replace(candidate, of=of, count=name)
