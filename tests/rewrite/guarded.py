"""Decisions without a database: a catalog that is written out, and the functions of duckanon."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from duckanon.functions.templates import table_functions
from duckanon.rewrite.admit import admit
from duckanon.rewrite.catalog import Catalog, Protection, Stored, View
from duckanon.rewrite.decide import decide
from duckanon.rewrite.decision import Decision
from duckanon.rewrite.spot.names import TableName

PERSONS = TableName("x", "main", "persons")
POLICY = Protection(
    Fraction(4), Fraction(3), Fraction(1, 2), "hid", ("state",), 6, ("sex", "edu"), ("age",), 5, ("sick",), ("name",)
)
CATALOG = Catalog(
    search=[("x", "main")],
    tables={
        PERSONS: Stored(
            ("x", "main", "Persons"),
            {
                "hid": "BIGINT", "State": "VARCHAR", "sex": "VARCHAR", "edu": "VARCHAR", "age": "INTEGER",
                "sick": "BOOLEAN", "name": "VARCHAR", "income": "BIGINT",
            },
        ),
        TableName("x", "main", "shops"): Stored(("x", "main", "shops"), {"shop": "INTEGER", "state": "VARCHAR"}),
        TableName("temp", "main", "mine"): Stored(("temp", "main", "mine"), {"a": "INTEGER"}, temporary=True),
    },
    views={
        TableName("x", "main", "adults"): View(
            ("x", "main", "adults"), "CREATE VIEW adults AS SELECT * FROM persons WHERE age > 17;"
        ),
        TableName("x", "main", "sizes"): View(
            ("x", "main", "sizes"),
            "CREATE VIEW sizes(household, size) AS SELECT hid, count(*) FROM persons GROUP BY hid;",
        ),
    },
    macros=frozenset({"twice"}),
    protected={PERSONS: POLICY},
)  # fmt: skip


def decided(sql: str, **changed: object) -> Decision:
    """What becomes of a statement. changed: fields of the policy."""
    policy = replace(POLICY, **changed)  # type: ignore[arg-type]
    return decide(admit(sql), replace(CATALOG, protected={PERSONS: policy}), table_functions())
