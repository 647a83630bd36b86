"""The compiler of kernels: how often it compiles, what it tells, who may call what is compiled, and its cache."""

import ast
import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import types
from numba.core import event
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary

from duckanon.engines import compiled as module
from duckanon.engines.array_kernels import argsort, assign, sort
from duckanon.engines.compiled import allocating, compiled, inlined, inner
from tests.amounts import sampled


@inner
def _added(number: int, one: int) -> int:
    return number + one


@inlined
def _twice(number: int) -> int:
    return 2 * number


@compiled
def _many(shorts: np.ndarray) -> int:
    found = _added(1, 2) + _added(3, 4) + _twice(5)
    for short in shorts:
        found += _added(short, one=0) + _twice(short)
    return found


def test_inner_functions_work() -> None:
    assert _many(np.array([1, 2], dtype=np.int32)) == 3 + 7 + 10 + 3 + 6


def test_constants_and_short_numbers_share_a_version() -> None:
    dispatcher = _added._compiled  # type: ignore[attr-defined]
    for asked in [(types.literal(1), types.literal(2)), (types.int32, types.int64), (types.int64, types.literal(3))]:
        dispatcher.get_call_template(asked, {})
    assert dispatcher.signatures == [(types.int64, types.int64)]


@inner
def _quotient(number: int, divisor: int) -> int:
    return number // divisor


@compiled
def _halved(number: int, divisor: int) -> int:
    return _added(_quotient(number, divisor), _quotient(number, 2))


def test_a_part_fails_as_python_does() -> None:
    assert _halved(10, 5) == 2 + 5
    with pytest.raises(ZeroDivisionError):
        _halved(10, 0)


def test_a_kernel_is_optimised_and_becomes_machine_code_once_with_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    optimised: list[str] = []
    coded: list[str] = []
    code = JITCodeLibrary._finalize_final_module
    optimise = JITCodeLibrary._optimize_final_module

    def optimising(library: JITCodeLibrary) -> None:
        optimised.append(library.name)
        optimise(library)

    def coding(library: JITCodeLibrary) -> None:
        coded.append(library.name)
        code(library)

    monkeypatch.setattr(JITCodeLibrary, "_optimize_final_module", optimising)
    monkeypatch.setattr(JITCodeLibrary, "_finalize_final_module", coding)
    first = inner(lambda number: number + 1)
    second = inner(lambda number: first(number) * 2)
    kernel = compiled(lambda number: first(number) + second(number))
    kernel._cache = NullCache()  # type: ignore[attr-defined]
    assert kernel(3) == 4 + 8
    assert len(optimised) == len(coded) == 1


@pytest.mark.parametrize("function", [_added, _twice, assign, argsort, sort])
def test_what_is_for_compiled_code_cannot_be_called(function: object) -> None:
    with pytest.raises(TypeError, match="is for compiled code: Python cannot call it"):
        function(1, 2)  # type: ignore[operator]


@allocating
def _sorted(keys: np.ndarray) -> np.ndarray:
    return argsort(keys)


@compiled
def _sort(values: np.ndarray) -> None:
    sort(values, len(values))


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 32, 33, 100, 1000])
def test_argsort_is_stable_and_sort_sorts(length: int, dtype: type) -> None:
    keys: np.ndarray = np.random.default_rng(length).integers(0, 1 + length // 3, length).astype(dtype)
    assert _sorted(keys).tolist() == np.argsort(keys, kind="stable").tolist()
    expected = np.sort(keys).tolist()
    _sort(keys)
    assert keys.tolist() == expected


@compiled
def _assigned(target: np.ndarray, source: np.ndarray) -> None:
    assign(target[1], source)
    assign(target[0], (7, 8))


def test_assign() -> None:
    target = np.zeros((2, 3), dtype=np.int64)
    _assigned(target, np.array([1, 2, 3]))
    assert target.tolist() == [[7, 8, 0], [1, 2, 3]]


def test_compiling_is_told_once_and_loading_is_not(tmp_path: Path) -> None:
    program = (
        "from duckanon.engines.groups.isotonic_regression import _pool; import numpy as np\n"
        "def pool(a): _pool(a, np.ones(a.shape), np.ones(a.shape), np.ones((2, 3)), np.ones(3, np.int64))\n"
        "for shape in ((1, 1), (2, 3)): pool(np.ones(shape))\n"
        "pool(np.ones((2, 2)).T)"  # another layout: compiled once more
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            check=True, capture_output=True, text=True,
        ).stderr
        for _ in range(2)
    ]  # fmt: skip
    assert told[0].count("compiling its engines") == 1
    assert told[1] == ""


@pytest.mark.parametrize("collects", [True, False])
def test_collecting_garbage_waits_until_a_kernel_is_compiled(collects: bool) -> None:
    kernel = compiled(lambda number: _added(number, 1))
    kernel.py_func.__module__ = __name__.replace("tests", "duckanon")  # type: ignore[attr-defined]
    kernel._cache = NullCache()  # type: ignore[attr-defined]
    during = []

    class Watching(event.Listener):
        def on_start(self, event: object) -> None:
            during.append(gc.isenabled())

        def on_end(self, event: object) -> None:
            during.append(gc.isenabled())

    (gc.enable if collects else gc.disable)()
    try:
        with event.install_listener("numba:compile", Watching()):
            assert kernel(1) == 2
        assert during[0] is False
        assert gc.isenabled() is collects
    finally:
        gc.enable()


_HELPER = """
from duckanon.engines.compiled import inner

@inner
def number(x):
    return x + {}
"""
_CALLER = """
from duckanon.engines.compiled import compiled
from duckanon.engines.helper import number

@compiled
def called(x):
    return number(x)
"""


def _fresh(folder: Path, program: str, **more: str) -> str:
    # Python would take an edit of equal length in the same second for the same file.
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **more}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout + done.stderr.replace("\n", " ")


def _package(folder: Path) -> Path:
    """A package of the name duckanon in which nothing but the compiler is there; its folder of engines."""
    engines = folder / "duckanon" / "engines"
    engines.mkdir(parents=True)
    for name in ("__init__", "engines/__init__"):
        (folder / "duckanon" / f"{name}.py").write_text("")
    for name in ("compiled", "compiler"):
        (engines / f"{name}.py").write_text(Path(module.__file__).with_stem(name).read_text())
    return engines


@pytest.mark.ci("it compiles kernels anew")
def test_an_edit_is_noticed_where_it_is_reached(tmp_path: Path) -> None:
    engines = _package(tmp_path)
    (engines / "caller.py").write_text(_CALLER)
    program = "from duckanon.engines.caller import called as f; print(f(10), sum(f.stats.cache_hits.values()))"
    for helper, unrelated, said in ((1, 1, "11 0"), (1, 2, "11 1"), (2, 2, "12 0")):
        (engines / "helper.py").write_text(_HELPER.format(helper))
        (engines / "unrelated.py").write_text(_HELPER.format(unrelated))
        assert _fresh(tmp_path, program, NUMBA_CACHE_DIR=str(tmp_path / "cache")).startswith(said)


_CHAIN = {
    "calling": """
from duckanon.engines import between
from duckanon.engines.compiled import compiled

number = between.number

@compiled
def called(x):
    return number(x) + between.ONE
""",
    "between": """
from duckanon.engines.helping import (
    number,
)

ONE = 1
""",
    "helping": """
from duckanon.engines.compiled import inner

@inner
def number(x):
    return x + 10
""",
    "unrelated": """
from duckanon.engines.calling import called
""",
}


@pytest.mark.parametrize(
    ("edited", "stale"),
    [("calling", True), ("between", True), ("helping", True), ("compiled", True), ("unrelated", False), ("new", False)],
)
def test_a_kernel_is_stale_where_a_file_that_it_reaches_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: str, stale: bool
) -> None:
    engines = _package(tmp_path)
    for name, text in _CHAIN.items():
        (engines / f"{name}.py").write_text(text)
    monkeypatch.setattr(module, "_PACKAGE", engines.parent)

    def sources() -> str:
        for remembered in (module._sources, module._imported, module._text):
            remembered.cache_clear()
        return module._sources(engines / "calling.py")

    try:
        before = sources()
        with (engines / f"{edited}.py").open("a") as file:
            file.write("\n# Another text.\n")
        assert (sources() != before) is stale
        after = sources()
        # Written again, as by another checkout, it is the same text.
        for path in engines.glob("*.py"):
            os.utime(path, (1, 1))
        assert sources() == after
    finally:
        monkeypatch.undo()
        module._sources.cache_clear()


def test_kernels_reach_few_files() -> None:
    # A kernel beside what chooses among all methods would be stale with each of them.
    for path in sorted((module._PACKAGE / "engines").rglob("*.py")):
        if "duckanon.engines.compiled import" in path.read_text(encoding="utf-8"):
            assert len(module._reached(path)) <= 22, path


def test_all_imports_are_found() -> None:
    for path in sorted(module._PACKAGE.rglob("*.py")):
        asked = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                asked |= {node.module or "", *(f"{node.module}.{name.name}" for name in node.names)}
            elif isinstance(node, ast.Import):
                asked |= {name.name for name in node.names}
        assert {file for name in asked if (file := module._file(name))} <= module._imported(path), path


_PAIR = """
from typing import NamedTuple

class Pair(NamedTuple):
    left: int
    right: int
"""
_SUMMING = """
from duckanon.engines.compiled import compiled
from duckanon.engines.{} import Pair

@compiled
def summed(pair):
    return pair.left + pair.right
"""
_SUMMED = (
    "from duckanon.engines.summing import Pair, summed as f; print(f(Pair(3, 4)), sum(f.stats.cache_hits.values()))"
)


@pytest.mark.ci("it compiles kernels anew")
def test_a_cache_that_names_what_has_moved_is_compiled_anew(tmp_path: Path) -> None:
    engines = _package(tmp_path)
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for place in ("before", "after"):
        (engines / f"{place}.py").write_text(_PAIR)
        (engines / "summing.py").write_text(_SUMMING.format(place))
        for hits in (0, 1):
            assert _fresh(tmp_path, _SUMMED, **cache).startswith(f"7 {hits}")
        (engines / f"{place}.py").unlink()


@pytest.mark.parametrize(
    "ending", ["nbi", pytest.param("nbc", marks=pytest.mark.ci("the other of two files of a cache"))]
)
@pytest.mark.parametrize("left", sampled([0, 40]))
def test_a_cache_that_was_cut_off_is_compiled_anew(tmp_path: Path, ending: str, left: int) -> None:
    engines = _package(tmp_path)
    (engines / "pairs.py").write_text(_PAIR)
    (engines / "summing.py").write_text(_SUMMING.format("pairs"))
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    _fresh(tmp_path, _SUMMED, **cache)
    (file,) = (tmp_path / "cache").rglob(f"*.{ending}")
    file.write_bytes(file.read_bytes()[:left])
    for hits in (0, 1):
        assert _fresh(tmp_path, _SUMMED, **cache).startswith(f"7 {hits}")


def test_what_cannot_be_kept_serves_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, say, where an error would fail an answer that is charged already."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    file = module._CacheFile(str(tmp_path), "kernel", "stamp")
    file.save("key", 7)
    assert file.load("key") is None


def test_kernels_work_where_nothing_can_be_written() -> None:
    program = (
        "import numba.core.caching as c\n"
        "c.CacheImpl._locator_classes = []\n"
        "import numpy as np; from duckanon.engines.metric.certificate import _sums; print(_sums(np.ones((2, 2))))"
    )
    assert _fresh(Path(module.__file__).parents[2], program).strip()


_MAKING = {"empty", "zeros", "full", "ones", "empty_like", "arange", "copy", "append", "heappush", "heappop", "argsort"}
_ALLOCATING = {"allocating", "inner_allocating"}
_IN_PLACE = {"called", "compiled", "inner", "inlined", "inner_exact_sums"}


def _kernels() -> dict[str, tuple[str, ast.FunctionDef]]:
    """The decorator and the source of each kernel, by module and name."""
    found = {}
    for path in sorted(Path(module.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Name) and mark.id in _ALLOCATING | _IN_PLACE:
                        found[f"{path.stem}.{node.name}"] = (mark.id, node)
    return found


def test_what_makes_arrays_says_so() -> None:
    # Without numba's counts an array that is made would never be freed, and one that is returned be freed too early.
    kernels = _kernels()
    making = _MAKING | {name.split(".")[1] for name, (mark, _) in kernels.items() if mark in _ALLOCATING}
    plain = {node.name for mark, node in kernels.values() if mark not in _ALLOCATING}
    for name, (mark, node) in kernels.items():
        if mark in _ALLOCATING:
            continue
        calls = [call.func for call in ast.walk(node) if isinstance(call, ast.Call)]
        called = {
            f.attr if isinstance(f, ast.Attribute) else f.id for f in calls if isinstance(f, ast.Attribute | ast.Name)
        }
        assert not called & (making - plain), name
        returned = ast.unparse(node.returns) if node.returns else ""
        assert set(re.findall(r"\w+", returned)) <= {"None", "int", "float", "bool", "tuple"}, name
