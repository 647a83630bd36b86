"""A call of a SQL function: its arguments under their own names, checked. It crosses SQL as one literal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from fractions import Fraction
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

from duckanon.cancellation import current
from duckanon.catalog.names import literal
from duckanon.functions.arguments import checked

# Beside the arguments: in which statement a call stands.
_STATEMENT = "duckanon.statement"


@dataclass(frozen=True)
class Request:
    """The base of all requests: frozen dataclasses of texts, numbers, fractions, tuples, mappings and dataclasses.

    function: the name of the SQL function.
    """

    function: ClassVar[str]

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        """The request of a call with these arguments. Raises InvalidInput for wrong ones, or if they contradict.

        It holds them as the specification has them checked, unless a class reads them in its own way.
        """
        return cls(**cls.checked(arguments))

    @classmethod
    def checked(cls, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, each checked by itself as the specification says."""
        return checked(cls.function, arguments)

    def query(self) -> str:
        """The query that answers it."""
        raise NotImplementedError

    def dump(self) -> str:
        """As JSON; fractions as text, exactly."""
        return json.dumps(asdict(self), default=str)

    @property
    def literal(self) -> str:
        """As a SQL literal, for the functions inside the query; with the number of the statement that calls."""
        flag = current()
        dumped = self.dump()
        if flag is not None:
            dumped = json.dumps({**json.loads(dumped), _STATEMENT: flag.number})
        return literal(dumped)

    @classmethod
    def statement(cls, dumped: str) -> int | None:
        """The number of the statement whose call was written as `literal`; None if it has none."""
        number: int | None = json.loads(dumped).get(_STATEMENT)
        return number

    @classmethod
    def load(cls, dumped: str) -> Self:
        """The request that was dumped."""
        request: Self = _loaded(cls, json.loads(dumped))
        return request


@cache
def _hints(of: type) -> Mapping[str, Any]:
    return get_type_hints(of)


def _loaded(kind: Any, value: Any) -> Any:
    """What was dumped, as a value of the type that its field declares."""
    if value is None:
        return None
    if is_dataclass(kind):
        hints = _hints(kind)  # type: ignore[arg-type] # a class
        return kind(**{field.name: _loaded(hints[field.name], value[field.name]) for field in fields(kind)})  # type: ignore[operator] # a class
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        fits = next((option for option in inner if isinstance(option, type) and isinstance(value, option)), None)
        return value if fits else _loaded(next(option for option in inner if option not in (type(None), int)), value)
    if origin is tuple:
        return tuple(_loaded(inner[0], entry) for entry in value)
    return Fraction(value) if kind is Fraction else value
