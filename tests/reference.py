"""Writes the parts of pages that follow from the code: `python -m tests.reference`.

They stand between comments, such as `<!-- call -->` and `<!-- /call -->`. On a SQL function's page, from its
specification: `call` (signature and summary), `arguments`, `columns`, `refusals` (and the source). On an algorithm's,
from its registry: `facts` (source, cost and limits). Everything else is written by hand.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from duckanon.engines.registry import families
from duckanon.specification import Argument, Function, functions

DOCS = Path(__file__).parents[1] / "docs"
FUNCTION_PAGES = DOCS / "functions"
MAP = DOCS / "guarantee" / "papers-map.md"
WIDTH = 88


def pages() -> Iterator[tuple[Path, dict[str, str]]]:
    """Every page with generated parts, and these by name."""
    for function in functions().values():
        yield FUNCTION_PAGES / f"{function.name}.md", {name: part(function) for name, part in PARTS.items()}
    for family, methods in families().items():
        for name, method in methods.items():
            facts = f"\n- Source: {method.source}.\n- Cost and limits: {method.limits}.\n"
            yield DOCS / "algorithms" / family / f"{name}.md", {"facts": facts}
    yield MAP, {"functions": _functions(), "methods": _methods()}


def written(page: str, parts: Mapping[str, str]) -> str:
    """The page with its generated parts as they are now. Raises ValueError if some have no place."""
    marks = {name: re.compile(rf"<!-- {name} -->\n.*?<!-- /{name} -->", re.DOTALL) for name in parts}
    lost = [
        f"<!-- {name} --> and <!-- /{name} -->" for name, part in parts.items() if part and not marks[name].search(page)
    ]
    if lost:
        raise ValueError(f"There is no place for {', '.join(lost)} in the page that begins {page[:40]!r}.")
    for name, part in parts.items():
        page = marks[name].sub(f"<!-- {name} -->\n{part}\n<!-- /{name} -->".replace("\\", r"\\"), page)
    return page


def signature(function: Function) -> str:
    """The call as one would write it, over as many lines as it needs."""
    lines = [f"{function.name}("]
    parts = [_parameter(argument) for argument in function.arguments]
    for place, part in enumerate(parts):
        end = ")" if place == len(parts) - 1 else ", "
        if len(lines[-1]) + len(part) + len(end) > WIDTH:
            lines.append(" " * 4)
        lines[-1] += part + end
    if not parts:
        lines[-1] += ")"
    return "\n".join(line.rstrip() for line in lines)


def _parameter(argument: Argument) -> str:
    if argument.default is None:
        return argument.name
    return f"{argument.name} := {'...' if argument.required else argument.default}"


def _call(function: Function) -> str:
    drawn = "\n".join(f"    {line}" for line in signature(function).splitlines())
    rows = f" One row for each {function.rows}." if function.rows else ""
    return f"\n{drawn}\n\n{function.summary}{rows}\n"


def _arguments(function: Function) -> str:
    rows = ((f"`{one.name}`", _type(one), _default(one), one.meaning) for one in function.arguments)
    return _table(("argument", "type", "default", "meaning"), rows) if function.arguments else ""


def _type(argument: Argument) -> str:
    """The type, with the bounds of a number. (Which texts it may be is told by its meaning.)"""
    return argument.type if argument.values or not argument.bounds else f"{argument.type}, {argument.bounds}"


def _default(argument: Argument) -> str:
    return "required" if argument.required else f"`{argument.default}`"


def _columns(function: Function) -> str:
    rows = ((one.name if " " in one.name else f"`{one.name}`", one.type, one.meaning) for one in function.columns)
    return _table(("column", "type", "meaning"), rows) if function.columns else ""


def _refusals(function: Function) -> str:
    table = _table(("refused", "with"), ((f"`{one.call}`", one.says) for one in function.refusals))
    source = f"\nSource: {function.source}.\n" if function.source else ""
    return (table if function.refusals else "") + source


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _functions() -> str:
    """A row for each SQL function, for a page in another folder than theirs."""
    rows = (
        (
            f"[{one.name}](../functions/{one.name}.md)",
            f"`functions/{one.module}.py`",
            re.sub(r"\]\((\w+\.md)", r"](../functions/\1", one.source or ""),
        )
        for one in functions().values()
    )
    return _table(("function", "module", "source"), rows)


def _methods() -> str:
    rows = (
        (family, f"[{name}](../algorithms/{family}/{name}.md)", method.source)
        for family, methods in families().items()
        for name, method in methods.items()
    )
    return _table(("family", "method", "source"), rows)


PARTS: dict[str, Callable[[Function], str]] = {
    "call": _call,
    "arguments": _arguments,
    "columns": _columns,
    "refusals": _refusals,
}

if __name__ == "__main__":
    for page, parts in pages():
        page.write_text(written(page.read_text(encoding="utf-8"), parts), encoding="utf-8")
