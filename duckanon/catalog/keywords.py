"""Words that SQL reads as something else than a name, unless they stand in double quotes."""

from __future__ import annotations

# DuckDB's keywords of 1.4 to 2.0 but for the unreserved ones, and those of these that sqlglot takes for no name.
NOT_NAMES = frozenset(
    """
    all alter analyse analyze and anti any array as asc asof asymmetric at authorization between bigint binary bit
    boolean both by case cast char character check coalesce collate collation column columns concurrently constraint
    create cross cube dec decimal default deferrable delete desc describe distinct do drop else end except exists
    extract false fetch float for force foreign freeze from full generated glob grant group grouping grouping_id
    having ilike in initially inner inout insert install int integer intersect interval into is isnull join lambda
    lateral leading left like limit lock map national natural nchar none not notnull null nullif numeric offset on
    only or order out outer overlaps overlay pivot pivot_longer pivot_wider placing position positional precision
    primary qualify real references returning revoke right rollback rollup row select semi setof show similar
    smallint some struct substring summarize symmetric table tablesample then time timestamp to trailing treat trim
    true try_cast tuple union unique unpack unpivot update using values varchar variadic verbose when where window
    with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize
    xmltable
    """.split()
)
