"""Options of a command from the arguments of the SQL function that it calls, as `sql/specification` describes them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import typer
from typer.models import ArgumentInfo

from duckanon.integrations.calls import as_options, named, numbers, split, whole, widths
from duckanon.integrations.cli.option_groups import grouped
from duckanon.integrations.terminal.errors import one_sentence
from duckanon.specification import Argument, functions

Command = Callable[..., None]

# A meaning that only refers to the argument of the same name of another function.
_REFERENCE = re.compile(r"as in \[\w+\]\((\w+)\.md\)")
_LINK = re.compile(r"\[([^]]+)\]\((?:(?:\.\./)?([\w/-]+)\.md)?(?:#[\w-]*)?\)")
_CODE = re.compile(r"`([^`]*)`")


@dataclass(frozen=True)
class _Kind:
    """How a SQL type is given on the command line. read: the SQL value of what was given for an option."""

    type: Any
    metavar: str | None = None
    read: Callable[[Any, str], object] = lambda item, _: item


_TEXTS = _Kind(list[str], "NAMES", lambda item, _: split(item))
_NUMBERS = _Kind(list[str], "NAME=NUMBER", numbers)
_KINDS = {
    "BIGINT": _Kind(int),
    "BOOLEAN": _Kind(bool),
    "BOOLEAN or VARCHAR": _Kind(str, "true|WORD", lambda item, _: {"true": True, "false": False}.get(item, item)),
    "DECIMAL": _Kind(float),
    "DOUBLE": _Kind(float),
    "INTEGER": _Kind(int),
    "INTEGER or DECIMAL": _Kind(float, None, lambda item, _: int(item) if item.is_integer() else item),
    "INTEGER or INTEGER[]": _Kind(list[str], "NUMBERS", whole),
    "STRUCT or MAP": _NUMBERS,
    "STRUCT or MAP of numbers": _NUMBERS,
    "STRUCT or MAP of tables": _Kind(list[str], "NAME=TABLE", named),
    "STRUCT or MAP of tables or lists": _Kind(list[str], "NAME=TABLE", named),
    "STRUCT or MAP of widths": _Kind(list[str], "NAME=WIDTH", widths),
    "STRUCT, MAP or list": _NUMBERS,
    "VARCHAR": _Kind(str),
    "VARCHAR or VARCHAR[]": _TEXTS,
    "VARCHAR[]": _TEXTS,
    # Each time that the option is given is a list.
    "VARCHAR[][]": _Kind(list[str], "NAMES", lambda given, _: [split([value]) for value in given]),
}


def takes(function: str, *, but: Collection[str] = (), required: bool = True) -> Callable[[Command], Command]:
    """Give a command an option for each argument of a SQL function that it does not declare itself.

    The command gets the values as keyword arguments, as `calls.call` takes them; None is what was not given. Its errors
    are told in one sentence. but: arguments that get no option. Those that name tables get none either, because a
    command reads files. required: False makes the options of required arguments optional.
    """

    def decorated(written: Command) -> Command:
        command = grouped(written)
        declared = inspect.signature(command, eval_str=True).parameters.values()
        own = [one for one in declared if one.kind is not one.VAR_KEYWORD]
        left_out = {one.name.rstrip("_") for one in own} | set(but)
        taken = {
            argument.name: argument
            for argument in functions()[function].arguments
            if not (argument.table or argument.name in left_out)
        }

        @functools.wraps(command)
        def run(**given: Any) -> None:
            with one_sentence(as_options):
                for name, argument in taken.items():
                    if given[name] is not None:
                        given[name] = _KINDS[argument.type].read(given[name], _option(name))
                command(**given)

        options = [_parameter(argument, function, required and argument.default is None) for argument in taken.values()]
        parameters = sorted([*options, *(one.replace(kind=one.KEYWORD_ONLY) for one in own)], key=_place)
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorated


def _place(parameter: inspect.Parameter) -> int:
    """The order in a command's help: arguments, then required options, then others."""
    if any(isinstance(part, ArgumentInfo) for part in get_args(parameter.annotation)):
        return 0
    return 1 if parameter.default is parameter.empty else 2


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _parameter(argument: Argument, function: str, required: bool) -> inspect.Parameter:
    kind = _KINDS[argument.type]
    # Its name is given, because typer would make a second one of a switch: --no-...
    metavar = kind.metavar and kind.metavar.replace("WORD", "|".join(argument.values or ()))
    option = typer.Option(_option(argument.name), metavar=metavar, help=_help(argument, function))
    return inspect.Parameter(
        argument.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if required else None,
        annotation=Annotated[kind.type if required else kind.type | None, option],
    )


def _help(argument: Argument, function: str) -> str:
    """An argument's meaning and default, without Markdown and with options in place of SQL's arguments."""
    arguments = {argument.name: argument for argument in functions()[function].arguments}
    if found := _REFERENCE.fullmatch(argument.meaning):
        other = {argument.name: argument for argument in functions()[found[1]].arguments}
        return _help(other[argument.name], found[1])

    def code(match: re.Match[str]) -> str:
        return _option(match[1]) if match[1] in arguments else _typed(match[1])

    def link(match: re.Match[str]) -> str:
        page = match[2] or function
        return match[1] if match[1] == page else f"{match[1]} ({page}.md)"

    text = as_options(_CODE.sub(code, _LINK.sub(link, argument.meaning)))
    text += f" ({argument.bounds})" if argument.bounds and not argument.values else ""
    default = argument.default
    told = f" Default: {_typed(default)}." if default and default not in ("NULL", "[]", "false") else ""
    return f"{text[0].upper()}{text[1:]}.{told}"


def _typed(sql: str) -> str:
    """A constant as it is typed for an option: `['a', 'b']` as `a,b`, `{'a': 3}` as `a=3`. Other SQL stays."""
    if sql[:1] not in ("'", "[", "{"):
        return sql
    return re.sub(r"[]['{}]", "", sql).replace(": ", "=").replace(", ", ",")
