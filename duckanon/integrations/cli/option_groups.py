"""Options that belong together as one parameter of a command: the fields of a dataclass."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_type_hints

Command = Callable[..., None]


def grouped(command: Command) -> Command:
    """Give a command, for each of its parameters that is a dataclass, an option for each field of that.

    The fields are annotated as parameters of a command are. Without such a parameter it is the command itself.
    """
    declared = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {one.name: one.annotation for one in declared if is_dataclass(one.annotation)}
    if not groups:
        return command

    @functools.wraps(command)
    def run(**given: Any) -> None:
        types = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)}) for name, kind in groups.items()
        }
        command(**types, **given)

    parameters = [part for one in declared for part in _parameters(one, groups.get(one.name))]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _parameters(parameter: inspect.Parameter, group: Any) -> list[inspect.Parameter]:
    """A parameter as it is, or those that stand for its dataclass."""
    if group is None:
        return [
            parameter if parameter.kind is parameter.VAR_KEYWORD else parameter.replace(kind=parameter.KEYWORD_ONLY)
        ]
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(field.name, parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name])
        for field in fields(group)
    ]


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default
