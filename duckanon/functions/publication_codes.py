"""A suppressed table whose hierarchy is a table of codes, as one whose hierarchy is columns.

The records get a column for each level of the codes but the deepest, which is the column of codes itself, and the
release gets the same. A code that lies higher than the deepest is a level of itself from there on: what the release
says of it, it says on each of these levels. So the audit of columns is the audit of codes, and knows of every release
that the code tells its levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb

from duckanon.catalog.names import fold, identifier
from duckanon.catalog.policy import Policy
from duckanon.catalog.publication import Candidate, Codes
from duckanon.errors import InvalidInput
from duckanon.functions.code_levels import Leveled, levels_of_codes
from duckanon.functions.publication_numbers import kind_of
from duckanon.functions.suppressed_tables import BY_LEVEL, LEVELS, form, level_columns


def leveled(con: duckdb.DuckDBPyConnection, candidate: Candidate) -> Candidate:
    """The same with columns in the place of codes, in the release, in earlier ones and in the records.

    It leaves temporary tables behind, in the auditing transaction. Raises InvalidInput for releases that do not fit
    their codes.
    """
    if not candidate.codes and not any(publication.codes for publication in candidate.earlier):
        return candidate
    columns = _Columns(con, candidate)
    earlier = []
    for at, publication in enumerate(candidate.earlier):
        if publication.codes:
            variables = _expanded(publication.variables, columns.of(publication.codes))
            copy = publication.copy and columns.release(
                f"earlier_{at}", publication.copy, publication.columns, publication.variables, publication.codes
            )
            shown = (*publication.columns, *(name for name in variables if name not in publication.variables))
            publication = replace(publication, variables=variables, copy=copy, columns=shown)
        earlier.append(publication)
    terms, release, shown_columns = candidate.terms, candidate.release, dict(candidate.columns)
    if candidate.codes:
        leveled_columns = columns.of(candidate.codes)
        variables = _expanded(terms.variables, leveled_columns)
        release = columns.release("candidate", release, list(candidate.columns), terms.variables, candidate.codes)
        for leveled_column in leveled_columns.values():
            *names, own = leveled_column.names
            shown_columns |= dict.fromkeys(names, "VARCHAR")
            key = next(name for name in candidate.columns if fold(name) == fold(own))
            shown_columns[key] = kind_of(candidate, own)
        terms = replace(terms, variables=variables)
    return replace(
        candidate,
        of=columns.records(),
        release=release,
        terms=terms,
        earlier=earlier,
        columns=shown_columns,
        source={**candidate.source, **dict.fromkeys(columns.levels, "VARCHAR")},
        policy=_policy(candidate.policy, columns.levels),
        levels={fold(name): own for name, own in columns.levels.items()},
    )


class _Columns:
    """The columns of levels of a protected table. levels: by name, the folded column of codes."""

    def __init__(self, con: duckdb.DuckDBPyConnection, candidate: Candidate) -> None:
        self._con, self._candidate = con, candidate
        self._levels_of: dict[tuple[str, Codes], Leveled] = {}
        used: dict[tuple[str, Codes], set[str | None]] = {}
        for codes, release in ((candidate.codes, candidate.release), *((o.codes, o.copy) for o in candidate.earlier)):
            for column, lines in codes.items():
                used.setdefault((column, lines), set()).update(self._used(column, lines, release))
        for (column, lines), codes_used in used.items():
            own = next((name for name in candidate.source if fold(name) == column), None)
            if own is None:
                raise InvalidInput(f'{candidate.label} has no column "{column}" of codes: name one in hierarchies.')
            others = sum(known == column for known, _ in self._levels_of)
            name = "{column} (level {at})" if not others else f"{{column}} (level {{at}} of hierarchy {others + 1})"
            self._levels_of[column, lines] = levels_of_codes(own, lines, sorted(codes_used, key=str), name)
        self.levels = {
            name: column for (column, _), of_codes in self._levels_of.items() for name in of_codes.names[:-1]
        }
        clashes = {fold(name) for name in candidate.source} & {fold(name) for name in self.levels}
        if clashes:
            raise InvalidInput(
                f'{candidate.label} has a column "{min(clashes)}", as a level of codes is called: rename it.'
            )

    def of(self, codes: Mapping[str, Codes]) -> dict[str, Leveled]:
        """The levels of columns of codes, by folded column."""
        return {column: self._levels_of[column, lines] for column, lines in codes.items()}

    def _used(self, column: str, lines: Codes, release: str | None) -> set[str | None]:
        """The codes of records, and those of a release that have no parts."""
        shown = f"SELECT DISTINCT CAST({identifier(column)} AS VARCHAR) FROM "
        try:
            codes = {code for (code,) in self._con.execute(shown + self._candidate.of).fetchall()}
            in_release = {code for (code,) in self._con.execute(shown + release).fetchall()} if release else set()
        except duckdb.BinderException:
            raise InvalidInput(
                f'hierarchies names "{column}", which is no column of the release and of {self._candidate.label}: '
                "name a column of codes."
            ) from None
        wider = {parent for _, parent in lines}
        return codes | {code for code in in_release if code is not None and code not in wider}

    def records(self) -> str:
        """What stands after FROM to read the records with their levels."""
        joined, shown = f"{self._candidate.of} AS r", ["r.*"]
        for at, ((column, _), of_codes) in enumerate(self._levels_of.items()):
            *names, _own = of_codes.names
            table = f"temp.main._dk_levels_{at}"
            self._fill(table, ["code", *names], [(code, *labels[:-1]) for code, labels in of_codes.leaves.items()])
            joined += f" LEFT JOIN {table} AS c{at} ON CAST(r.{identifier(column)} AS VARCHAR) = c{at}.code"
            shown += [f"c{at}.{identifier(name)}" for name in names]
        return f"(SELECT {', '.join(shown)} FROM {joined})"

    def release(
        self, name: str, source: str, columns: Sequence[str], variables: Sequence[str], codes: Mapping[str, Codes]
    ) -> str:
        """A release with levels in the place of codes. Raises InvalidInput where its codes lie elsewhere."""
        leveled_columns = self.of(codes)
        expanded = _expanded(variables, leveled_columns)
        if not level_columns(columns):
            raise InvalidInput(
                "A table of codes has levels: publish what suppress gives, with row_level and col_level."
            )
        whole = form(self._con, source, columns, expanded)
        for column, of_codes in leveled_columns.items():
            at = next(
                (
                    lists[0]
                    for lists, dimension in zip(whole.lists, whole.dimensions, strict=True)
                    if fold(dimension[0][-1]) == column
                ),
                None,
            )
            if at is None:
                raise InvalidInput(
                    f'hierarchies names "{of_codes.names[-1]}", which is not in variables: name it there too.'
                )
            source = self._replaced(f"temp.main._dk_{name}_{at}", source, columns, of_codes, at)
            columns = [*columns, *of_codes.names[:-1]]
        return source

    def _replaced(self, table: str, source: str, columns: Sequence[str], of_codes: Leveled, at: int) -> str:
        """The release with the levels of one column. at: the list that it is in."""
        *names, own = of_codes.names
        nodes = f"{table}_nodes"
        lines = [(label, level, here, *labels) for label, level, here, labels in of_codes.nodes]
        self._fill(nodes, ["label", "level", "here", *(f"l{i}" for i in range(len(of_codes.names)))], lines)
        level = LEVELS[at] if at < len(LEVELS) else f"{BY_LEVEL}[{at - len(LEVELS) + 1}]"
        kind = kind_of(self._candidate, own)
        shown = []
        for name in columns:
            if fold(name) == fold(own):
                shown.append(f"TRY_CAST(n.l{len(names)} AS {kind}) AS {identifier(name)}")
            elif at < len(LEVELS) and fold(name) == LEVELS[at]:
                shown.append(f"n.here AS {identifier(name)}")
            elif at >= len(LEVELS) and fold(name) == BY_LEVEL:
                place = at - len(LEVELS) + 1
                by = f"r.{identifier(name)}"
                shown.append(f"{by}[:{place - 1}] || [n.here] || {by}[{place + 1}:] AS {identifier(name)}")
            else:
                shown.append(f"r.{identifier(name)}")
        shown += [f"n.l{i} AS {identifier(name)}" for i, name in enumerate(names)]
        on = f"r.{level} = n.level AND CAST(r.{identifier(own)} AS VARCHAR) IS NOT DISTINCT FROM n.label"
        self._con.execute(
            f"CREATE OR REPLACE TEMP TABLE {table.split('.')[-1]} AS SELECT {', '.join(shown)}, n.level AS _dk_level "
            f"FROM {source} AS r LEFT JOIN {nodes} AS n ON {on}"
        ).fetchall()
        ((strays,),) = self._con.execute(f"SELECT system.main.count(*) FROM {table} WHERE _dk_level IS NULL").fetchall()
        if strays:
            raise InvalidInput(
                f'{strays} rows have a code in "{own}" that the hierarchy does not have on their level: publish what '
                "suppress gives, with the hierarchy that it took."
            )
        self._con.execute(f"ALTER TABLE {table} DROP COLUMN _dk_level").fetchall()
        return table

    def _fill(self, table: str, names: Sequence[str], lines: Sequence[Sequence[Any]]) -> None:
        """Make a temporary table of these lines: texts, but for whole numbers in level and here."""
        kinds = {"level": "BIGINT", "here": "BIGINT"}
        shown = [f"CAST(unnest(?) AS {kinds.get(name, 'VARCHAR')}) AS {identifier(name)}" for name in names]
        columns = [list(column) for column in zip(*lines, strict=True)]
        self._con.execute(f"CREATE OR REPLACE TEMP TABLE {table.split('.')[-1]} AS SELECT {', '.join(shown)}", columns)


def _expanded(variables: Sequence[str], of_codes: Mapping[str, Leveled]) -> tuple[str, ...]:
    """The variables with all levels of codes, the widest first."""
    expanded: list[str] = []
    for name in variables:
        expanded += [*of_codes[fold(name)].names[:-1], name] if fold(name) in of_codes else [name]
    return tuple(expanded)


def _policy(policy: Policy, levels: Mapping[str, str]) -> Policy:
    """The policy of records with levels, which are what the codes are."""

    def more(names: Sequence[str]) -> tuple[str, ...]:
        named = {fold(name) for name in names}
        return (*names, *(level for level, column in levels.items() if column in named))

    return replace(
        policy,
        public=more(policy.public),
        hierarchy=more(policy.hierarchy),
        quasi_identifiers=more(policy.quasi_identifiers),
        sensitive=more(policy.sensitive),
    )
