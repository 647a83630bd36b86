"""Conditions on sensitive columns, as the command line gives them: its options, and its sentence for each mistake."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import typer

from duckanon.errors import InvalidInput


class Diversity(StrEnum):
    """How l counts."""

    DISTINCT = "distinct"
    ENTROPY = "entropy"
    RECURSIVE = "recursive"


Sensitive = Annotated[
    list[str] | None,
    typer.Option("--sensitive", metavar="COLUMNS", help="Columns that no class may give away; with --l or --t."),
]
L = Annotated[float | None, typer.Option("--l", metavar="L", help="How many values each class has of these at least.")]
Kind = Annotated[Diversity, typer.Option("--diversity", help="How --l counts the values.")]
C = Annotated[
    float | None,
    typer.Option("--c", metavar="C", help="With recursive: the commonest value is less than C times the others."),
]
T = Annotated[
    float | None, typer.Option("--t", metavar="T", help="How far each class may be from all records, from 0 to 1.")
]
MaxSuppression = Annotated[
    float | None,
    typer.Option("--max-suppression", metavar="SHARE", help="The share of records that may be dropped, as in 0.02."),
]


def conditions(
    columns: Sequence[str],
    l: float | None,  # noqa: E741 - the option's name
    diversity: Diversity,
    c: float | None,
    t: float | None,
    max_suppression: float | None,
    *,
    bare: bool = False,
) -> Mapping[str, object]:
    """The arguments of k_anonymize and k_compare beside `sensitive`. bare: --max-suppression may stand alone.

    Raises InvalidInput if some are missing, do not go together, or are out of range.
    """
    recursive = diversity is Diversity.RECURSIVE
    asked = l is not None or t is not None
    if asked and not columns:
        raise InvalidInput("--l and --t are conditions on sensitive columns: name them, as in --sensitive illness.")
    if columns and not asked:
        raise InvalidInput("--sensitive names columns without a condition: give --l or --t, as in --l 3.")
    if l is None and diversity is not Diversity.DISTINCT:
        raise InvalidInput(f"--diversity {diversity} says how --l counts: give --l, as in --l 3.")
    if recursive and c is None:
        raise InvalidInput("--diversity recursive needs --c, as in --c 2.")
    if c is not None and not recursive:
        raise InvalidInput("--c is a part of recursive diversity: add --diversity recursive, or leave --c out.")
    if max_suppression and not columns and not bare:
        raise InvalidInput("--max-suppression lets classes be dropped that fail --l or --t: give one of them.")
    if l is not None and diversity is Diversity.ENTROPY and not 1 < l < math.inf:
        raise InvalidInput("--l must be a number above 1, as in --l 2.5.")
    if l is not None and diversity is not Diversity.ENTROPY and (l < 2 or not l.is_integer()):
        raise InvalidInput("--l must be a whole number of 2 or more, as in --l 3; only --diversity entropy has others.")
    if c is not None and not 0 < c < math.inf:
        raise InvalidInput("--c must be a number above 0, as in --c 2.")
    if t is not None and not 0 <= t <= 1:
        raise InvalidInput("--t must be a number from 0 to 1, as in --t 0.2.")
    if max_suppression is not None and not 0 <= max_suppression < 1:
        raise InvalidInput("--max-suppression must be 0 or more and below 1, as in --max-suppression 0.02.")
    return {
        "l": int(l) if l is not None and l.is_integer() else l,
        "diversity": None if diversity is Diversity.DISTINCT else diversity.value,
        "c": c,
        "t": t,
        "max_suppression": max_suppression,
    }
