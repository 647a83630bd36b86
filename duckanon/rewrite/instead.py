"""What to write in place of a function that an analyst may not call: DuckDB's own, or the one that was meant."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from duckanon.rewrite.allowed import AGGREGATES, FUNCTIONS

# Functions of other databases, by folded names.
_OTHERS: Mapping[str, str] = {
    **dict.fromkeys(("getdate", "sysdate", "clock_timestamp", "statement_timestamp", "timeofday"), "now()"),
    **dict.fromkeys(("nvl", "isnull"), "coalesce(x, y)"),
    **dict.fromkeys(("dateadd", "adddate", "add_months"), "x + INTERVAL 1 MONTH"),
    **dict.fromkeys(("regexp_match", "regexp_substr"), "regexp_extract(x, pattern)"),
    **dict.fromkeys(("jsonb_agg", "json_agg"), "json_group_array(x)"),
    **dict.fromkeys(("jsonb_build_object", "json_build_object"), "json_object(key, value)"),
    **dict.fromkeys(("to_number", "convert", "to_integer"), "CAST(x AS DECIMAL(18,2))"),
    "btrim": "trim(x)",
    "charindex": "position(part IN x)",
    "date_bin": "time_bucket(INTERVAL 5 MINUTE, x)",
    "date_format": "strftime(x, '%Y-%m')",
    "decode": "CASE WHEN x = 1 THEN 'a' ELSE 'b' END",
    "every": "bool_and(x)",
    "iif": "if(condition, x, y)",
    "initcap": "upper(x[1]) || lower(x[2:])",
    "percentile": "quantile_cont(x, 0.5)",
    "quote_literal": "the text in single quotes",
    "rand": "random()",
    "regexp_like": "regexp_matches(x, pattern)",
    "str_to_date": "strptime(x, '%Y-%m-%d')",
    "string_to_table": "unnest(string_split(x, ','))",
    "timestamp_trunc": "date_trunc('month', x)",
    "to_timestamp": "to_timestamp(seconds), or strptime(x, '%Y-%m-%d')",
    "unix_timestamp": "epoch(x)",
    "width_bucket": "floor(x / 10) * 10",
}
# How alike a name must be to be the one that was meant: two letters of ten may differ.
_ALIKE = 0.8


def instead(name: str) -> str:
    """What may be done, as the end of a sentence. name: folded."""
    other = _OTHERS.get(name)
    if other is None:
        alike = [
            other_name
            for other_name in get_close_matches(name, FUNCTIONS, 1, _ALIKE)
            if other_name.isidentifier() and other_name[0] != "_"
        ]
        other = next((f"{alike_name}(...)" for alike_name in alike), None)
    return "leave it out, or ask the steward." if other is None else f"write {other}."


def not_called(name: str) -> str:
    """The sentence about a function that an analyst may not call. name: folded."""
    return f"The function {name[:40]} is not one of those that an analyst may call: {instead(name)}"


def is_like_an_aggregate(name: str) -> bool:
    """Whether the name of a function that there is not is nearly that of an aggregate. name: folded."""
    return name not in FUNCTIONS and name not in _OTHERS and bool(get_close_matches(name, AGGREGATES, 1, _ALIKE))
