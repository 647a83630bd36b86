"""How every family of engines lists its methods, so that documents, tests and SQL can iterate over all of them.

A family is a package `duckanon.engines.<family>` whose module `methods` has METHODS, a dictionary by name. A family
whose methods have further properties subclasses `Method`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Generic, TypeVar

from duckanon.errors import InvalidInput

Run = TypeVar("Run")

_FAMILIES = ("kanon", "cells", "groups", "metric", "tables")


@dataclass(frozen=True, kw_only=True)
class Method(Generic[Run]):
    """One method of a family.

    name: what a caller writes. help: what it does, in one line. source: the paper and its section.
    limits: how its cost grows, and where it stops. options: the whole numbers that a caller may set, by name, with the
    least value of each. run: what computes; its arguments and its result are the same for all methods of a family.
    """

    name: str
    help: str
    source: str
    limits: str
    run: Run
    options: Mapping[str, int] = field(default_factory=dict)


AnyMethod = TypeVar("AnyMethod", bound=Method[Any])


def by_name(*methods: AnyMethod) -> dict[str, AnyMethod]:
    """A family's dictionary, in the order in which the methods are listed."""
    return {method.name: method for method in methods}


def named(
    methods: Mapping[str, AnyMethod], name: str, *, kind: str = "method", aliases: Mapping[str, str] | None = None
) -> AnyMethod:
    """The method of that name. aliases: other names that are accepted, and the methods that they stand for.

    Raises InvalidInput, with the names there are, for a name that is not among them.
    """
    aliases = aliases or {}
    method_name = aliases.get(name, name)
    if method_name not in methods:
        known = ", ".join(f"'{known_name}'" for known_name in (*aliases, *methods))
        raise InvalidInput(f"There is no {kind} '{name}': choose one of {known}.")
    return methods[method_name]


class _Families(Mapping[str, Mapping[str, Method[Any]]]):
    """The methods of each family by the family's name. A family is imported when its methods are asked for."""

    def __getitem__(self, family: str) -> Mapping[str, Method[Any]]:
        if family not in _FAMILIES:
            raise KeyError(family)
        methods: Mapping[str, Method[Any]] = import_module(f"duckanon.engines.{family}.methods").METHODS
        return methods

    def __iter__(self) -> Iterator[str]:
        return iter(_FAMILIES)

    def __len__(self) -> int:
        return len(_FAMILIES)


def families() -> Mapping[str, Mapping[str, Method[Any]]]:
    """The methods of each family by the family's name. Listing the names imports no engine; asking for one does."""
    return _Families()
