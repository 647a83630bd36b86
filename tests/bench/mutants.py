"""Small faults put into the code, one at a time, to see whether the tests of the own room notice.

python -m tests.bench.mutants [--seed N] [--room ROOM ...] [--count 40] [--jobs 2] [--list]

A mutant is one change of one expression or statement: a comparison turned, a number off by one, a condition dropped,
`and` for `or`, two arguments swapped, a sign turned, a statement removed. Which ones are made follows from the seed
alone. Each runs in a copy of the tree, with the tests of its room only. Before that the unchanged copy must pass, on an
empty cache of kernels where the room has some. Three times the CPU seconds that this took, and a minute, are what a
mutant may take: if it is stopped then, it counts as killed, as its tests would not end. (CPU seconds, so that other
programs on the machine cannot make a mutant look killed.) One that merely waits is stopped by the clock, after ten
times as long.

Left as they are: annotations, docstrings, texts of errors, log lines and assertions; limits and tables at the top of a
module and exponents, as in 2.0**-40, which are margins for rounding with room in them; and numbers that a picture's
drawing gets by keyword, such as the size of a font or how many points a label is moved, of which none is right.
"""

from __future__ import annotations

import argparse
import ast
import copy
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Room:
    """Modules, by patterns below duckanon/, and the paths of their tests."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]

    @cached_property
    def files(self) -> list[Path]:
        found = {path for one in self.modules for path in (ROOT / "duckanon").glob(one)}
        return sorted(path.relative_to(ROOT) for path in found if path.name != "__init__.py")

    @property
    def compiles(self) -> bool:
        """Whether it holds kernels, so that a change in it makes them stale."""
        return any(one.startswith("engines/") for one in self.modules)


# What a release answers is tested as analysts get it.
_ANSWERS = tuple(f"tests/guard/test_{name}.py" for name in ("fixtures", "counts", "conditional_tables", "group_sizes"))
ROOMS = (
    Room("catalog", ("catalog/*.py",), ("tests/catalog", "duckanon/catalog")),
    Room("governance", ("governance/*.py", "accounting.py"), ("tests/governance", "tests/test_accounting.py")),
    Room("releases", ("releases/*.py",), ("tests/releases", *_ANSWERS)),
    Room("rewrite", ("rewrite/*.py",), ("tests/rewrite",)),
    Room("algebra", ("rewrite/algebra/*.py",), ("tests/rewrite",)),
    Room("normalize", ("rewrite/normalize/*.py",), ("tests/rewrite",)),
    Room("recognize", ("rewrite/recognize/*.py",), ("tests/rewrite",)),
    Room("units", ("units/*.py",), ("tests/units", *_ANSWERS)),
    Room("rules", ("rewrite/rules.py",), ("tests/rewrite",)),
    Room("guard", ("guard.py", "analyst.py", "connection.py"), ("tests/guard", "tests/test_connection.py")),
    Room("functions", ("functions/*.py",), ("tests/functions",)),
    Room("kanon", ("engines/kanon/**/*.py",), ("tests/engines/kanon",)),
    Room("groups", ("engines/groups/*.py",), ("tests/engines/groups",)),
    Room("cells", ("engines/cells/*.py",), ("tests/engines/cells",)),
    Room("metric", ("engines/metric/*.py",), ("tests/engines/metric",)),
    Room("tables", ("engines/tables/*.py",), ("tests/engines/tables",)),
    Room("suppression", ("engines/suppression/*.py",), ("tests/engines/suppression",)),
    Room("integrations", ("integrations/**/*.py",), ("tests/integrations",)),
    Room("server", ("server/*.py",), ("tests/server",)),
)


@dataclass(frozen=True)
class Mutant:
    """A change: the bytes from `start` to `end` of a file become `new`."""

    room: str
    path: Path
    line: int
    start: int
    end: int
    old: str
    new: str
    kind: str

    @property
    def label(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.path}:{self.line}  {self.kind}: {old[:60]} -> {new[:60]}"


# --- what can be changed ----------------------------------------------------------------------------------------------

_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_SIGNS: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
# Calls whose two arguments mean the same in either order, or only help the type checker.
_SYMMETRIC = {"max", "min", "isinstance", "cast", "replace", "print", "getattr"}


def mutants(room: Room, seed: int) -> Iterator[Mutant]:
    """All mutants of a room, in an order that follows from the seed: files in turn, each change of a file once."""
    chosen = random.Random(f"{seed} {room.name}")
    queues = []
    for path in room.files:
        found = list(_changes(room, path))
        chosen.shuffle(found)
        queues.append(found)
    # Large modules come first as often as their share of the code.
    while any(queues):
        (queue,) = chosen.choices(queues, weights=list(map(len, queues)))
        yield queue.pop()


def _changes(room: Room, path: Path) -> Iterator[Mutant]:
    source = (ROOT / path).read_bytes()
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for node, new, kind in _mutated(ast.parse(source), picture="plots" in path.parts):
        start = lines[node.lineno - 1] + node.col_offset
        end = lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        text = ast.unparse(new)
        # Brackets keep the meaning of what stands around.
        text = f"({text})" if isinstance(new, ast.expr) else text
        yield Mutant(room.name, path, node.lineno, start, end, source[start:end].decode(), text, kind)


def _mutated(tree: ast.AST, picture: bool) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST, str]]:
    """Each node that can be changed, the node in its place, and the kind of change."""
    for node in _inside(tree, picture):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            other = _with(node, ops=[_TURNED[type(node.ops[0])]()])
            yield node, other, "comparison"
        elif isinstance(node, ast.BoolOp):
            yield node, _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And()), "and/or"
            rest = node.values[:-1]
            yield node, rest[0] if len(rest) == 1 else _with(node, values=rest), "condition dropped"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, node.operand, "not dropped"
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield node, ast.Constant(node.value + 1), "off by one"
        elif isinstance(node, ast.BinOp) and type(node.op) in _SIGNS and not _is_text(node):
            yield node, _with(node, op=_SIGNS[type(node.op)]()), "sign"
        elif isinstance(node, ast.Call) and _can_swap(node):
            yield node, _with(node, args=[node.args[1], node.args[0], *node.args[2:]]), "arguments swapped"
        elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            yield node, ast.Pass(), "statement removed"


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _can_swap(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    plain = len(call.args) >= 2 and not any(isinstance(one, ast.Starred) for one in call.args[:2])
    return plain and name not in _SYMMETRIC and ast.dump(call.args[0]) != ast.dump(call.args[1])


def _inside(tree: ast.AST, picture: bool) -> Iterator[ast.AST]:
    """The nodes of functions' bodies that tests could notice, in the order of the text. picture: it draws one."""
    stack: list[tuple[ast.AST, bool]] = [(tree, False)]
    while stack:
        node, inside = stack.pop()
        if inside:
            yield node
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        below = node.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ast.iter_child_nodes(node)
        kept = [(one, inside or function) for one in below if not _is_left_alone(node, one, picture)]
        stack.extend(reversed(kept))


def _are_numbers(node: ast.expr) -> bool:
    """Whether the expression is a number, or a tuple of numbers."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return False
    return all(isinstance(one, int | float) for one in (value if isinstance(value, tuple) else (value,)))


def _is_left_alone(parent: ast.AST, node: ast.AST, picture: bool) -> bool:
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.arguments):
        return True
    if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "Protocol" for base in node.bases):
        return True
    if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
        return True
    if isinstance(parent, ast.AnnAssign) and node is parent.annotation:
        return True
    drawn = picture and isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute)
    if drawn and isinstance(node, ast.keyword) and _are_numbers(node.value):
        return True
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Pow) and node is parent.right:
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    text = ast.unparse(node.func).lower() if isinstance(node, ast.Call) else ""
    return "log" in text.split(".")[0] or text.endswith(".close")


# --- running them -----------------------------------------------------------------------------------------------------


@dataclass
class Copies:
    """Copies of the tree, each used by one thread at a time."""

    folder: Path
    free: list[Path] = field(default_factory=list)
    made: int = 0
    lock: Lock = field(default_factory=Lock)

    def take(self) -> Path:
        with self.lock:
            if self.free:
                return self.free.pop()
            self.made += 1
            tree = self.folder / f"tree{self.made}"
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for name in filter(None, listed.stdout.split("\n")):
            if (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, tree / name)
        return tree

    def give(self, tree: Path) -> None:
        with self.lock:
            self.free.append(tree)


@dataclass(frozen=True)
class Run:
    """What became of a room's tests. ended: whether they came to an end. seconds: of CPU."""

    passed: bool
    ended: bool
    seconds: float


def run(tree: Path, room: Room, limit: float, fresh: bool) -> Run:
    """Run the room's tests in a copy of the tree, stopped after `limit` CPU seconds or ten times that by the clock.

    fresh: compile into an empty folder that is deleted afterwards. A change in an engine makes all kernels stale, so
    without it the next tests would have to compile them again.
    """
    kernels = (
        Path(tempfile.mkdtemp(prefix="kernels", dir=tree.parent)) if fresh else tree.parent / f"{tree.name}_kernels"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "NUMBA_CACHE_DIR": str(kernels),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": os.environ.get("HYPOTHESIS_PROFILE", "quick"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *room.tests]
    started = subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    # Programs that tests start inherit it, each for itself.
    resource.prlimit(started.pid, resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit) + 10))
    deadline = time.monotonic() + 10 * limit
    try:
        pid = 0
        while pid == 0 and time.monotonic() < deadline:
            time.sleep(0.1)
            pid, status, used = os.wait4(started.pid, os.WNOHANG)
        if pid == 0:
            return Run(passed=False, ended=False, seconds=limit)
        started.returncode = code = os.waitstatus_to_exitcode(status)
        return Run(passed=code == 0, ended=code != -signal.SIGXCPU, seconds=used.ru_utime + used.ru_stime)
    finally:
        # What a test that was stopped has left running, too.
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        if started.returncode is None:
            started.wait()
        if fresh:
            shutil.rmtree(kernels, ignore_errors=True)


def tried(mutant: Mutant, room: Room, copies: Copies, limit: float) -> Run:
    """Run the room's tests with the mutant in place: if they pass, it survived."""
    tree = copies.take()
    source = (ROOT / mutant.path).read_bytes()
    try:
        (tree / mutant.path).write_bytes(source[: mutant.start] + mutant.new.encode() + source[mutant.end :])
        return run(tree, room, limit, room.compiles)
    finally:
        (tree / mutant.path).write_bytes(source)
        copies.give(tree)


def chosen(rooms: Sequence[Room], seed: int, count: int) -> list[Mutant]:
    """So many mutants, the rooms in turn."""
    queues = {room.name: mutants(room, seed) for room in rooms}
    found: list[Mutant] = []
    while len(found) < count and queues:
        for name in list(queues):
            one = next(queues[name], None)
            if one is None:
                del queues[name]
            elif len(found) < count:
                found.append(one)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Which faults the tests notice.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--room", action="append", choices=[room.name for room in ROOMS])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="show the mutants, and run nothing")
    given = parser.parse_args()
    # A shell that starts this in the background has Ctrl-C ignored, and so would programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rooms = [room for room in ROOMS if room.files and (given.room is None or room.name in given.room)]
    listed = chosen(rooms, given.seed, given.count)
    if given.list:
        print("\n".join(mutant.label for mutant in listed))
        return
    survived = untried = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        copies = Copies(Path(folder))
        for room in rooms:
            own = [mutant for mutant in listed if mutant.room == room.name]
            if not own:
                continue
            tree = copies.take()
            whole = run(tree, room, 3600, room.compiles)
            copies.give(tree)
            if not whole.passed:
                print(f"{room.name}: the tests do not pass as the code is, so its mutants are not tried", flush=True)
                untried += len(own)
                continue
            limit = 60 + 3 * whole.seconds
            results = pool.map(lambda mutant, room=room, limit=limit: tried(mutant, room, copies, limit), own)
            for mutant, result in zip(own, results, strict=True):
                survived += result.passed
                said = "SURVIVED" if result.passed else "killed" if result.ended else "killed (time)"
                print(f"{said:14} {room.name:13} {result.seconds:5.0f} s  {mutant.label}", flush=True)
    print(f"{len(listed) - survived - untried} of {len(listed)} killed" + (f", {untried} not tried" if untried else ""))


if __name__ == "__main__":
    main()
