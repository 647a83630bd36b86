"""`plot`, which draws any result, and the list of pictures."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from duckanon.errors import InvalidInput
from duckanon.integrations.plots import cell_bounds, compare, group_sizes, mechanism, perturbation_map, utility
from duckanon.integrations.plots.picture import Picture, drawn
from duckanon.integrations.plots.result_columns import ResultColumns, result_columns
from duckanon.integrations.plots.style import sentence_of


@dataclass(frozen=True)
class Kind:
    """One kind of picture. needs: the columns that a result must have. of: the functions that return such results.

    draw: makes a figure from a result, and a sentence that describes it.
    """

    needs: frozenset[str]
    of: str
    draw: Callable[..., tuple[Any, str]]

    @property
    def options(self) -> list[str]:
        """The names of the picture's options."""
        return [
            name
            for name, parameter in inspect.signature(self.draw).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        ]


PICTURES = {
    "compare": Kind(
        frozenset({"method", "k", "information_loss", "lower_bound", "avg_class"}), "k_compare", compare.draw
    ),
    "bounds": Kind(
        frozenset({"lower", "upper", "disclosed"}),
        "cell_bounds, conditional_bounds or table_bounds",
        cell_bounds.draw,
    ),
    "sizes": Kind(frozenset({"level", "size", "groups", "low", "high"}), "dp_group_sizes", group_sizes.draw),
    "mechanism": Kind(frozenset({"secret", "output", "probability"}), "metric_mechanism", mechanism.draw),
    "map": Kind(frozenset({"secret", "output", "probability"}), "metric_mechanism", perturbation_map.draw),
    "utility": Kind(
        frozenset({"measure", "columns", "value", "before", "after", "difference"}), "k_utility", utility.draw
    ),
}


def plot(data: Any, kind: str | None = None, *, con: Any = None, **options: Any) -> Picture:
    """A picture of a result of a function that is listed in PICTURES.

    data: a DuckDB relation, an Arrow table, a data frame, or SQL to run on `con`. kind: a name in PICTURES; unless it
    is given, it follows from the columns. options: see docs/how-to/pictures.md; `title` for all kinds; `cols`, `counts`
    and `small` for bounds; `truth` and `epsilon` for sizes; `places`, `id`, `features`, `metric` and `secrets` for map,
    which is drawn where `places` is given. A notebook shows the picture; `save` writes it as SVG or PNG.
    Raises InvalidInput for what is no such result, for an unknown option, and where matplotlib is missing.
    """
    columns = result_columns(data, con)
    name = kind or _recognised(columns, options)
    picture = PICTURES.get(name)
    if picture is None:
        raise InvalidInput(f"There is no picture '{name}': there are {sentence_of(list(PICTURES))}.")
    missing = sorted(picture.needs - set(columns.columns))
    if missing:
        raise InvalidInput(
            f"The result has no column {sentence_of(missing)}: the picture '{name}' shows results of {picture.of}."
        )
    unknown = [option for option in options if option not in picture.options]
    if unknown:
        raise InvalidInput(
            f"The picture '{name}' has no option {sentence_of(unknown)}: it has {sentence_of(picture.options)}."
        )
    if not len(columns):
        raise InvalidInput("The result has no rows, so there is nothing to draw.")
    for option in ("truth", "places"):
        if options.get(option) is not None:
            options[option] = result_columns(options[option], con)
    return drawn(name, picture.draw, columns, **options)


def _recognised(columns: ResultColumns, options: dict[str, Any]) -> str:
    """The kind whose columns the result has."""
    if options.get("places") is not None:
        return "map"
    for name, kind in PICTURES.items():
        if kind.needs <= set(columns.columns):
            return name
    raise InvalidInput(
        "These columns are of no result that there is a picture for: draw what k_compare, k_utility, cell_bounds, "
        "conditional_bounds, dp_group_sizes or metric_mechanism gave, with its own column names."
    )
