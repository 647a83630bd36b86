"""The only module that uses numba: loops compiled to machine code, cached on disk, run without the GIL."""

import gc
import hashlib
import logging
import re
from collections.abc import Callable
from functools import cache
from os.path import relpath
from pathlib import Path
from typing import Any, TypeVar, cast

from numba.core import event, types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.registry import CPUDispatcher

from duckanon.engines.compiler import Called, Compiler

F = TypeVar("F", bound=Callable[..., object])

_log = logging.getLogger("duckanon")


class _Compiling(event.Listener):
    """Called by numba when it begins and ends to compile a kernel, or one that this calls, under numba's own lock.

    It reports, once a process, that compiling takes the time; with a warm cache nothing is compiled. And it defers
    Python's garbage collection until the kernel is compiled: looking through the compiler's many objects again and
    again takes a sixth of the time.
    """

    def __init__(self) -> None:
        self._said = False
        self._collects = False
        self._depth = 0

    def on_start(self, event: Any) -> None:
        if not _is_ours(event):
            return
        if not self._said:
            self._said = True
            _log.warning(
                "duckanon is compiling its engines for this machine; this happens once and takes some seconds."
            )
        if self._depth == 0:
            self._collects = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        if not _is_ours(event):
            return
        self._depth -= 1
        if self._depth == 0 and self._collects:
            gc.enable()


def _is_ours(event: Any) -> bool:
    function = getattr(event.data.get("dispatcher"), "py_func", None)
    return getattr(function, "__module__", "").startswith("duckanon.")


event.register("numba:compile", _Compiling())  # type: ignore[no-untyped-call]


def compiled(function: F) -> F:
    """Compile `function` on its first call; later processes load the machine code from numba's cache.

    It works in arrays that it is given: it makes none, and returns numbers. (So numba's reference counts of arrays are
    left out, which take a tenth of all compiling.) Kernels hold no global state and start no threads of their own
    (numba's thread pools cannot be entered from two DuckDB threads at once), so any number of them may run at once.
    """
    return cast("F", _Kernel(function, **_UNCOUNTED))


def allocating(function: F) -> F:
    """As `compiled`, for what makes arrays or lists, returns them, or calls what does."""
    return cast("F", _Kernel(function))


def inner(function: F) -> F:
    """As `compiled`, for other compiled functions alone. Without an entry point for Python that takes half the time."""
    return cast("F", _Inner(function, **_UNCOUNTED))


def inner_allocating(function: F) -> F:
    """As `allocating`, for other compiled functions alone."""
    return cast("F", _Inner(function))


def inlined(function: F) -> F:
    """As `inner`, but a part of every caller's code: for small functions that hot loops call."""
    return cast("F", _Inner(function, forceinline=True, **_UNCOUNTED))


def called(function: F) -> F:
    """As `inner`, but never a part of its callers' code: for long functions that a long one calls in several places."""
    return cast("F", _Inner(function, Called, **_UNCOUNTED))


def inner_exact_sums(function: F) -> F:
    """As `inner`, for loops whose sums have no rounding, so that their terms may come in any order: vectorised.

    No number may be NaN.
    """
    # This does not change results: sums that are exact are the same in any order, on any machine.
    return cast("F", _Inner(function, fastmath={"reassoc", "nsz", "nnan"}, **_UNCOUNTED))


_UNCOUNTED: dict[str, Any] = {"_nrt": False}


class _Inner:
    """A function for compiled code alone. Numba gets the compiled one; a call from Python raises an error."""

    def __init__(self, function: Callable[..., object], compiler: type[Compiler] = Compiler, **options: Any) -> None:
        self.__wrapped__ = function
        self._compiled = _Part(function, compiler, no_cpython_wrapper=True, **options)

    @property
    def _numba_type_(self) -> Any:
        return self._compiled._numba_type_

    def __call__(self, *_: object) -> object:
        raise TypeError(f"{self.__wrapped__.__name__} is for compiled code: Python cannot call it.")


class _Part(CPUDispatcher):
    """A function that compiled callers share: in one version for whole numbers of all widths, and constants.

    Without that numba makes a version for each constant that some caller passes. It is not cached: a caller's machine
    code contains it.
    """

    def __init__(self, function: Callable[..., object], compiler: type[Compiler] = Compiler, **options: Any) -> None:
        # Nothing calls it from C, and an entry point for C would take a tenth of all compiling.
        targets = {"nopython": True, "nogil": True, "no_cfunc_wrapper": True, **options}
        super().__init__(function, targetoptions=targets, pipeline_class=compiler)

    def add_overload(self, result: Any) -> None:
        self.overloads[tuple(result.signature.args)] = result

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(tuple(map(_plain, args)), {name: _plain(kind) for name, kind in kws.items()})


class _Kernel(_Part):
    """A compiled function that Python calls, cached."""

    def __init__(self, function: Callable[..., object], **options: Any) -> None:
        super().__init__(function, **options)
        try:
            self._cache = _KernelCache(function)
        except RuntimeError:
            # Neither the package's folder nor the user's can be written to: each process compiles for itself.
            _log.debug("No folder to keep compiled engines in: set NUMBA_CACHE_DIR to one.")

    def add_overload(self, result: Any) -> None:
        CPUDispatcher.add_overload(self, result)


class _KernelCache(FunctionCache):
    """Numba's cache of one function, that is stale once a source file has changed that the function can reach.

    Numba looks at the function's own file alone, although the machine code holds that of all functions it calls, and
    the constants and the fields of tuples that it takes from other modules. All these come by imports. And it looks at
    when the file was written; here its text counts.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        found = self._impl.locator
        stamp = _sources(Path(function.__code__.co_filename))
        self._cache_file = _CacheFile(  # type: ignore[no-untyped-call]
            found.get_cache_path(), self._impl.filename_base, stamp
        )


class _CacheFile(IndexDataCacheFile):
    """Numba's files of one function's cache, where a file that cannot be read counts as missing, and is compiled anew.

    Numba reads all of an index before it looks whether the index is stale. Older versions of this package wrote names
    of classes that have moved since, and a full disk leaves incomplete files. Unpickling may raise anything. What
    cannot be written serves this process alone.
    """

    def _load_index(self) -> dict[Any, str]:
        try:
            return cast("dict[Any, str]", super()._load_index())  # type: ignore[no-untyped-call]
        except Exception:
            _log.debug("An index of compiled engines cannot be read: %s", self._index_path, exc_info=True)
            return {}

    def load(self, key: Any) -> Any:
        try:
            return super().load(key)  # type: ignore[no-untyped-call]
        except Exception:
            _log.debug("A compiled engine listed in %s cannot be read", self._index_path, exc_info=True)
            return None

    def save(self, key: Any, data: Any) -> None:
        try:
            super().save(key, data)  # type: ignore[no-untyped-call]
        except OSError:
            _log.debug("A compiled engine cannot be written beside %s", self._index_path, exc_info=True)


_PACKAGE = Path(__file__).parents[1]
_NAME = re.compile(r"[\w.]+")
# What only looks like an import adds a file too many, which does no harm. Imports are absolute, by a rule of ruff.
_IMPORT = re.compile(
    rf"^[ \t]*(?:from[ \t]+({_PACKAGE.name}[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|.*)|import[ \t]+(.*))", re.MULTILINE
)


@cache
def _sources(start: Path) -> str:
    """A hash of the texts of all files that a kernel's file reaches."""
    found = hashlib.sha256()
    for path in sorted(_reached(start)):
        found.update(f"{relpath(path, _PACKAGE)}\0{_text(path)}\0".encode())
    return found.hexdigest()


def _reached(start: Path) -> set[Path]:
    """A file, the files of this package that it imports, those that these import, and so on."""
    reached, following = {start}, [start]
    while following:
        new = _imported(following.pop()) - reached
        reached |= new
        following += new
    return reached


@cache
def _imported(path: Path) -> frozenset[Path]:
    """The files of this package that a file imports: a name that is imported may be an attribute or a module."""
    asked: set[str] = set()
    for module, names, modules in _IMPORT.findall(_text(path)):
        asked |= {module, *(f"{module}.{name}" for name in _NAME.findall(names)), *_NAME.findall(modules)}
    return frozenset(file for name in asked if (file := _file(name)) is not None)


def _file(module: str) -> Path | None:
    package, *inner = module.split(".")
    path = _PACKAGE.joinpath(*inner)
    files = (path / "__init__.py", path.with_suffix(".py"))
    return next((file for file in files if file.is_file()), None) if package == _PACKAGE.name else None


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _plain(kind: Any) -> Any:
    kind = types.unliteral(kind)  # type: ignore[no-untyped-call]
    return types.int64 if isinstance(kind, types.Integer) and kind.signed else kind  # type: ignore[attr-defined]
