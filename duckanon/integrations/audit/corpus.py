"""What `duckanon audit` reads: SQL files, folders of them, dbt projects and the views of DuckDB databases."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from duckanon.errors import InvalidInput
from duckanon.integrations.dbt_manifest import Node, compiled, read_manifest, relation
from duckanon.integrations.dbt_meta import declared
from duckanon.rewrite.recognize import Schema, Stored, TableName, View, fold

_DATABASES = {".duckdb", ".db"}
# Folders of installed packages, builds and environments.
_SKIPPED = {"target", "dbt_packages", "dbt_modules", "node_modules", "venv", "__pycache__"}


@dataclass(frozen=True)
class Script:
    """SQL text from a file, or an object in one, such as a view.

    defines: the name of the table or view that the text makes. allow: kinds of findings that are accepted. flaw: what
    is wrong with the file, if the text may not be what was meant.
    """

    path: Path
    text: str
    object: str = ""
    defines: TableName | None = None
    allow: frozenset[str] = frozenset()
    flaw: str = ""


@dataclass(frozen=True)
class Corpus:
    """Scripts, the known tables that they read, and the tables that the sources declare as protected."""

    scripts: tuple[Script, ...] = ()
    schema: Schema = field(default_factory=Schema)
    protected: frozenset[TableName] = frozenset()

    def __add__(self, other: Corpus) -> Corpus:
        schema = replace(
            self.schema,
            tables={**self.schema.tables, **other.schema.tables},
            views={**self.schema.views, **other.schema.views},
            macros={**self.schema.macros, **other.schema.macros},
        )
        return Corpus(self.scripts + other.scripts, schema, self.protected | other.protected)


def corpus(paths: Sequence[Path], database: Path | None = None) -> Corpus:
    """Everything under some paths. database: what the scripts run on, whose protected tables are watched.

    Raises InvalidInput for a path that is missing or holds nothing to audit, and for a database without protected
    tables.
    """
    found = Corpus()
    for path in paths:
        found += _read(path)
    if database is None:
        return found
    if not database.is_file():
        raise InvalidInput(f"There is no database {database}.")
    known = _database(database)
    if not known.protected:
        raise InvalidInput(f"No table of {database} is protected: name tables with --table, or protect() them there.")
    # The database comes first, because the scripts may make tables of the same name.
    return replace(replace(known, scripts=()) + found, scripts=found.scripts)


def _read(path: Path) -> Corpus:
    if not path.exists():
        raise InvalidInput(f"There is no file or folder {path}.")
    if path.is_dir():
        manifest = path / "target" / "manifest.json"
        if manifest.is_file():
            return _dbt(manifest, path)
        if (path / "dbt_project.yml").is_file():
            raise InvalidInput(f"{path} is a dbt project that was not compiled: run dbt compile first.")
        scripts = tuple(_script(file) for file in _sql_files(path))
        if not scripts:
            raise InvalidInput(f"There is no .sql file in the folder {path}.")
        return Corpus(scripts)
    if path.name == "manifest.json":
        return _dbt(path, path.parent.parent)
    if path.suffix.lower() in _DATABASES:
        return _database(path)
    if path.suffix.lower() == ".sql":
        return Corpus((_script(path),))
    raise InvalidInput(f"{path}: audit reads .sql files, folders, dbt's manifest.json and DuckDB databases.")


def _sql_files(folder: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
        yield from (Path(where) / name for name in sorted(files) if name.lower().endswith(".sql"))


def _script(path: Path) -> Script:
    """A file of SQL. One that is not UTF-8 is read byte by byte, so that names in plain letters are seen."""
    try:
        return Script(path, path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        return Script(path, path.read_text(encoding="latin-1"), flaw="the file is not UTF-8 text")


def _dbt(manifest: Path, project: Path) -> Corpus:
    """A dbt project. Its models are treated as views of each other, however they are materialised."""
    content = read_manifest(manifest)
    nodes, sources = [*content["nodes"].values()], [*content["sources"].values()]
    scripts: list[Script] = []
    tables: dict[TableName, Stored] = {}
    views: dict[TableName, View] = {}
    said = {id(node): declared(node) for node in [*nodes, *sources]}
    protected = {relation(node) for node in [*nodes, *sources] if said[id(node)].protected}
    for node in sources:
        tables[relation(node)] = _stored(node)
    for node in nodes:
        kind, name = node.get("resource_type"), relation(node)
        if kind == "seed":
            tables[name] = _stored(node)
        if kind not in ("model", "snapshot", "test", "analysis") or node.get("language", "sql") != "sql":
            continue
        code, written = compiled(node), node.get("compiled_path")
        path = project / written if written and (project / written).is_file() else None
        where = path or project / node.get("original_file_path", "manifest.json")
        # A protected model is not audited, because it may hold records. Nor is a test that only counts rows.
        if not said[id(node)].protected and (kind != "test" or _keeps_rows(node)):
            # What is allowed applies only while analysts cannot read the model, as where dbt builds it.
            allow = () if said[id(node)].open else said[id(node)].allow
            scripts.append(Script(where, code, node["name"], name, frozenset(allow)))
        if kind in ("model", "snapshot"):
            views[name] = View(sql=code)
    return Corpus(tuple(scripts), Schema(tables=tables, views=views), frozenset(protected))


def _keeps_rows(test: Node) -> bool:
    return bool((test.get("config") or {}).get("store_failures"))


def _stored(node: Node) -> Stored:
    """A source's or seed's columns, if all are described with their types; else its columns count as unknown."""
    columns = {fold(name): str(one.get("data_type") or "") for name, one in (node.get("columns") or {}).items()}
    return Stored(columns=columns) if columns and all(columns.values()) else Stored(complete=False)


def _database(path: Path) -> Corpus:
    """The views and table macros of a database, which is opened for reading only, and its protected tables."""
    from duckanon.functions.udf import Instance
    from duckanon.governance.instance import governance_of
    from duckanon.integrations.catalog import contents
    from duckanon.integrations.terminal.session import Session

    with Session(path, read_only=True, role="steward") as session:
        found = contents(lambda query: session.con.execute(query).fetchall())
        policies = governance_of(Instance(session.con._con).identity, session.con._con).policies()
    scripts = [Script(path, sql, label, name) for name, label, sql in found.views]
    scripts += [Script(path, text, name) for name, text in found.macros]
    # Scripts may attach the database under any name, so its name is left out.
    protected = {
        TableName("", fold(policy.location.schema or ""), fold(policy.location.name)) for _, policy, _ in policies
    }
    return Corpus(tuple(scripts), found.schema, frozenset(protected))
