"""Puts duckanon's macros into a dbt project, and the example project into a folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from duckanon.errors import InvalidInput
from duckanon.specification import sql_root

_FOLDER = Path("macros", "duckanon")


def example(folder: Path) -> Path:
    """Write the example project, ready for `dbt build`. Raises InvalidInput if the folder has something in it."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder} exists already: name a new folder.")
    source = sql_root() / "examples"
    shutil.copytree(
        source / "dbt", folder, ignore=shutil.ignore_patterns("target", "logs", "*.duckdb*"), dirs_exist_ok=True
    )
    (folder / "seeds").mkdir()
    shutil.copy(source / "voters.csv", folder / "seeds" / "voters.csv")
    macros(folder)
    return folder


def macros(project: Path) -> Path:
    """Write the macros into a project, over those of another version.

    Returns their folder. Raises InvalidInput if there is no project.
    """
    if not (project / "dbt_project.yml").is_file():
        raise InvalidInput(f"{project} has no dbt_project.yml: name the folder of a dbt project.")
    folder = project / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted((sql_root() / "dbt").glob("*.sql")):
        shutil.copy(file, folder / file.name)
    return folder
