"""`duckanon dbt`: the example project, and the macros for an existing project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duckanon.integrations.terminal.errors import one_sentence
from duckanon.integrations.terminal.output import inform

app = typer.Typer(
    name="dbt", no_args_is_help=True, help="Put duckanon's macros into a dbt project, or make an example."
)

_NEXT = """\
Wrote {folder}. Two files more know of duckanon:

profiles.yml, below type: duckdb
      plugins:
        - module: duckanon.integrations.dbt

dbt_project.yml
on-run-start: "{{{{ duckanon_policies() }}}}"
on-run-end: "{{{{ duckanon_policies() }}}}"
"""


@app.command()
def example(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that is new or empty.")] = Path(
        "duckanon-example"
    ),
) -> None:
    """Write a small dbt project that runs as it stands."""
    with one_sentence():
        from duckanon.integrations.dbt.project import example as write

        write(folder)
        inform(f"Wrote {folder}. Next: cd {folder} && dbt build")


@app.command()
def macros(
    project: Annotated[Path, typer.Argument(metavar="PROJECT", help="The folder of dbt_project.yml.")] = Path(),
) -> None:
    """Write duckanon's macros into a dbt project, in macros/duckanon, over those of another version."""
    with one_sentence():
        from duckanon.integrations.dbt.project import macros as write

        inform(_NEXT.format(folder=write(project)).rstrip())
