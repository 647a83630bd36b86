"""What ships: the wheel has the SQL and works on its own; importing is light; functions are short."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import duckanon
from tests import extras

ROOT = Path(__file__).parents[1]
TRY = """
import duckdb, duckanon, pathlib
from duckanon.specification import sql_root
con = duckdb.connect()
con.execute("SET enable_progress_bar = false").fetchall()
duckanon.register(con)
con.execute("CREATE TABLE t AS SELECT i AS age FROM range(12) r(i)").fetchall()
print(len(con.execute("FROM k_anonymize('t', ['age'], method := 'initial')").fetchall()))
print(pathlib.Path(duckanon.__file__).parent)
print(sql_root())
con.close()
"""


def run(code: str, path: Path | None, cwd: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(path)} if path else dict(os.environ)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, which `python -m build` makes first and makes the wheel of."""
    from hatchling.builders.sdist import SdistBuilder

    (built,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("sdist")), versions=["standard"])
    return Path(built)


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip installs from the source archive alone: no checkout is there."""
    folder = tmp_path_factory.mktemp("installed")
    options = "--quiet --no-deps --no-index --no-build-isolation --no-compile --disable-pip-version-check".split()
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), str(sdist)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_source_archive_is_the_same_bytes_whenever_it_is_built(sdist: Path, tmp_path: Path) -> None:
    from hatchling.builders.sdist import SdistBuilder

    (again,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    assert Path(again).read_bytes() == sdist.read_bytes()


def test_the_citation_is_of_this_version() -> None:
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {duckanon.__version__}\n" in cited
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"\nlicense: {project['license']}\n" in cited
    assert f"## {duckanon.__version__}" in (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")


def test_the_wheel_carries_the_sql(wheel: Path) -> None:
    shipped = {path.relative_to(wheel / "duckanon" / "sql") for path in (wheel / "duckanon" / "sql").rglob("*.*")}
    ours = {path.relative_to(ROOT / "sql") for path in (ROOT / "sql").rglob("*.*")}
    assert shipped == ours
    assert not (wheel / "tests").exists()


def test_the_wheel_works_on_its_own(wheel: Path, tmp_path: Path) -> None:
    count, package, sql = run(TRY, wheel, tmp_path)[-3:]
    assert count == "12"
    assert Path(package) == wheel / "duckanon"
    assert Path(sql) == wheel / "duckanon" / "sql"


def test_the_checkout_works_in_place(tmp_path: Path) -> None:
    count, package, sql = run(TRY, ROOT, tmp_path)[-3:]
    assert count == "12"
    assert Path(package) == ROOT / "duckanon"
    assert Path(sql) == ROOT / "sql"


def test_a_lost_sql_folder_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from duckanon import specification

    monkeypatch.setattr(specification, "__file__", str(tmp_path / "duckanon" / "specification.py"))
    specification.sql_root.cache_clear()
    with pytest.raises(FileNotFoundError, match=r"^duckanon's folder sql/ is missing: install the package again\.$"):
        specification.sql_root()
    specification.sql_root.cache_clear()


def test_import_is_light(tmp_path: Path) -> None:
    heavy = """duckdb numpy numba pyarrow scipy sqlglot pandas typer rich prompt_toolkit IPython harlequin textual
        sqlalchemy matplotlib jinja2 dbt""".split()
    code = f"import sys, duckanon; print([m for m in {heavy!r} if m in sys.modules])"
    assert run(code, ROOT, tmp_path) == ["[]"]
    # register needs DuckDB and Arrow; engines load with the first call.
    code = (
        "import sys, duckdb, duckanon; duckanon.register(duckdb.connect()); "
        "print([m for m in ['numba', 'scipy', 'sqlglot', 'typer'] if m in sys.modules])"
    )
    # On a busy machine DuckDB draws a progress bar first.
    assert run(code, ROOT, tmp_path)[-1] == "[]"


IMPORT_EACH = """
import importlib, pkgutil, sys, duckanon
names = [each.name for each in pkgutil.walk_packages(duckanon.__path__, "duckanon.")]
print(len(names))
for name in names:
    for known in [known for known in sys.modules if known.split(".")[0] == "duckanon"]:
        del sys.modules[known]
    try:
        importlib.import_module(name)
    except ImportError as problem:
        if not isinstance(problem, ModuleNotFoundError):  # of an extra that is not installed
            print(name, problem)
"""


@pytest.mark.long("all of the package is imported from each of its 400 modules on")
def test_each_module_can_be_the_first_one_that_is_imported(tmp_path: Path) -> None:
    count, *problems = run(IMPORT_EACH, ROOT, tmp_path)
    assert int(count) > 400
    assert problems == []


def test_every_extra_that_tests_need_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(extras.LIBRARIES) <= set(declared)
    assert set(extras.NEEDED.values()) <= set(extras.LIBRARIES)
    assert [part for part in extras.NEEDED if not (ROOT / part).exists()] == []
    assert set(declared) - {"all-dev", "cli", "jupyter", "plot"} <= set(re.split(r"[\[\],]", declared["all-dev"][0]))


def test_a_skip_for_a_missing_extra_fails_where_all_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.LIBRARIES, "dbt", ("no_such_library",))
    monkeypatch.delenv("DUCKANON_ALL_EXTRAS", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"^needs the extra dbt: pip install -e '\.\[dev,dbt\]'$"):
        extras.needs("dbt")
    monkeypatch.setenv("DUCKANON_ALL_EXTRAS", "1")
    with pytest.raises(pytest.fail.Exception, match=r"^needs the extra dbt"):
        extras.needs("dbt")


def test_exceptions_from_the_limits_of_functions_are_needed() -> None:
    """A file that pyproject.toml lets off a limit on a function's length or complexity has a function beyond it."""
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    named = {
        (path, code)
        for path, codes in ruff["per-file-ignores"].items()
        for code in codes
        if code in ("C901", "PLR0912", "PLR0915")
    }
    found = subprocess.run(
        [
            *(sys.executable, "-m", "ruff", "check", "--isolated", "--select", "C901,PLR0912,PLR0915"),
            *("--config", f"lint.mccabe.max-complexity={ruff['mccabe']['max-complexity']}"),
            *("--config", f"lint.pylint.max-branches={ruff['pylint']['max-branches']}"),
            *("--config", f"lint.pylint.max-statements={ruff['pylint']['max-statements']}"),
            *("--output-format", "json", "duckanon", "tests"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    beyond = {(str(Path(one["filename"]).relative_to(ROOT)), one["code"]) for one in json.loads(found.stdout)}
    assert named <= beyond, sorted(named - beyond)
