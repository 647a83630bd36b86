"""Functions are short and take few arguments: all but kernels, the loops that numba compiles as one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# The most lines of a body without its docstring, and the most parameters, `self` included.
LINES, PARAMETERS = 60, 8
KERNELS = {"allocating", "compiled", "inner", "inner_allocating"}
# The parameters of a command are its options.
COMMANDS = "duckanon/integrations/cli/"
# What a printed table may say of itself, an argument each.
EXCEPTIONS = {"duckanon/engines/tables/released.py: counts", "duckanon/engines/tables/released.py: shares"}


def functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            yield inner
        if not isinstance(inner, ast.expr):
            yield from functions(inner)


def lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[ast.get_docstring(function, clean=False) is not None :]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return sum(isinstance(one, ast.arg) for one in ast.iter_child_nodes(function.args))


def beyond(path: str, text: str) -> set[str]:
    """The functions of a file that are beyond the limits."""
    return {
        f"{path}: {function.name}"
        for function in functions(ast.parse(text))
        if lines(function) > LINES or (parameters(function) > PARAMETERS and not path.startswith(COMMANDS))
        if not KERNELS & {ast.unparse(one) for one in function.decorator_list}
    }


def test_functions_are_short() -> None:
    paths = sorted((ROOT / "duckanon").rglob("*.py"))
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    assert set().union(*(beyond(path, text) for path, text in texts.items())) == EXCEPTIONS


@pytest.mark.parametrize(
    ("text", "is_beyond"),
    [
        ("def f():\n" + "    x = 1\n" * 60, False),
        ('def f():\n    """It says\n    much."""\n' + "    x = 1\n" * 60, False),
        ("class C:\n    def f(self):\n" + "        x = 1\n" * 61, True),
        ("try: x\nexcept E:\n    async def f():\n" + "        x = 1\n" * 61, True),
        ("@inner\ndef f():\n" + "    x = 1\n" * 61, False),
        ("def f(a, b, /, c, d=lambda x: 1, *e, g, h, **i): ...", False),
        ("def f(a, b, /, c, d, *e, g, h, j, **i): ...", True),
    ],
)
def test_what_is_beyond_is_noticed(text: str, is_beyond: bool) -> None:
    assert beyond("a.py", text) == ({"a.py: f"} if is_beyond else set())
