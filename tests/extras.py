"""Which tests need which extra of pyproject.toml. Without it they are skipped, with the command that installs it.

With DUCKANON_ALL_EXTRAS set, as in CI, such a skip is a failure.
"""

import os
from collections.abc import Generator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# By extra: the libraries by which it is known to be installed.
LIBRARIES: dict[str, Sequence[str]] = {
    "browser": ("axe_core_python", "playwright"),
    "dbt": ("dbt", "dbt.adapters.duckdb"),
    "docs": ("furo", "myst_parser", "sphinx"),
    "explore": ("starlette", "uvicorn"),
    "harlequin": ("harlequin", "harlequin_duckdb"),
    "metrics": ("prometheus_client",),
    "notebooks": ("IPython", "duckdb_engine", "ipykernel", "nbclient", "sql"),
    "office": ("openpyxl", "pyreadstat", "pandas"),
    "record": ("cryptography",),
    "report": ("jinja2", "matplotlib"),
    "spark": ("pyspark", "pandas"),
    "utility": ("sklearn",),
}
# By file or folder: the extra without which Python cannot import what is in it, or no test there can pass.
NEEDED: Mapping[str, str] = {
    "duckanon/integrations/dbt/plugin.py": "dbt",
    "duckanon/integrations/explore": "explore",
    "duckanon/integrations/harlequin.py": "harlequin",
    "duckanon/integrations/jupyter.py": "notebooks",
    "duckanon/integrations/report": "report",
    "tests/integrations/record": "record",
    "duckanon/integrations/spark": "spark",
    "duckanon/integrations/sqlalchemy.py": "notebooks",
    "tests/integrations/cli/test_office_files.py": "office",
    "tests/integrations/dbt": "dbt",
    "tests/integrations/explore": "explore",
    "tests/integrations/plots": "report",
    "tests/integrations/report": "report",
    "tests/integrations/spark": "spark",
    "tests/integrations/test_harlequin.py": "harlequin",
    "tests/integrations/test_jupyter.py": "notebooks",
    "tests/integrations/test_sqlalchemy.py": "notebooks",
    "tests/integrations/test_team_of_one.py": "dbt",
    "tests/test_site.py": "docs",
}


def needs(extra: str) -> None:
    """Skip the test, or the module that is being collected, if the extra is not installed; fail it in CI."""
    if is_installed(extra):
        return
    reason = f"needs the extra {extra}: pip install -e '.[dev,{extra}]'"
    if os.environ.get("DUCKANON_ALL_EXTRAS"):
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=True)


def is_installed(extra: str) -> bool:
    return all(map(_is_there, LIBRARIES[extra]))


def extra_of(path: Path) -> str | None:
    """The extra that everything in the file needs, if any."""
    relative = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
    return next((extra for part, extra in NEEDED.items() if f"{relative}/".startswith(f"{part}/")), None)


def _is_there(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False


class Extras:
    """A pytest plugin: a module whose extra is missing is skipped before anything imports it."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        collected = yield
        extra = extra_of(file_path)
        if not collected or extra is None or is_installed(extra):
            return collected
        return [Missing.from_parent(parent, path=file_path, extra=extra)]


class Missing(pytest.File):
    """A module that cannot be collected here."""

    def __init__(self, extra: str, **given: object) -> None:
        super().__init__(**given)  # type: ignore[arg-type]
        self._extra = extra

    def collect(self) -> Sequence[pytest.Item]:
        needs(self._extra)
        return []
