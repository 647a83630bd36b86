"""Decisions without a database: a catalog that is written out, and the functions of duckanon."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from fractions import Fraction

from sqlglot import parse_one

from duckanon.catalog.names import TableName
from duckanon.catalog.policy import Domain, Policy
from duckanon.catalog.snapshot import Catalog, Macro, Protected, Stored, View
from duckanon.governance.ledger_state import Publication
from duckanon.governance.locations import Location
from duckanon.releases.available import AvailableReleases
from duckanon.rewrite.admit import admit
from duckanon.rewrite.decide import decide
from duckanon.rewrite.decision import Decision
from duckanon.specification import table_functions

TODAY = date(2026, 2, 28)
PERSONS = TableName("x", "main", "persons")
POLICY = Policy(
    Fraction(4),
    population="persons",
    privacy_unit="pid",
    rows_per_unit=2,
    unit="hid",
    hierarchy=("state", "county"),
    max_size=6,
    per_query=Fraction(1, 2),
    public=("sex", "edu", "sick", "open"),
    domains={"state": "places", "county": "places", "sex": ("f", "m"), "edu": ("a", "b"), "sick": (True, False)},
    drop=("name",),
)
HELD = Protected(
    POLICY,
    Stored(
        ("x", "main", "Persons"),
        {
            "pid": "BIGINT", "hid": "BIGINT", "State": "VARCHAR", "county": "VARCHAR", "sex": "VARCHAR",
            "edu": "ENUM('a', 'b')", "open": "VARCHAR", "age": "INTEGER", "sick": "BOOLEAN", "name": "VARCHAR",
            "income": "BIGINT", "born": "DATE",
        },
    ),
    version=3,
    edition=2,
    remaining=Fraction(3),
    domains={
        "state": Domain("domain_3_0", ("State",)),
        "county": Domain("domain_3_1", ("State", "county")),
        "sex": Domain("domain_3_2", ("sex",)),
        "edu": Domain("domain_3_3", ("edu",)),
        "sick": Domain("domain_3_4", ("sick",)),
    },
)  # fmt: skip
CATALOG = Catalog(
    search=[("x", "main")],
    tables={
        TableName("x", "main", "shops"): Stored(("x", "main", "shops"), {"shop": "INTEGER", "state": "VARCHAR"}),
        TableName("x", "main", "units"): Stored(("x", "main", "units"), {"hid": "BIGINT"}),
        TableName("temp", "main", "mine"): Stored(("temp", "main", "mine"), {"a": "INTEGER"}, temporary=True),
    },
    views={TableName("x", "main", "sides"): View(("x", "main", "sides"), "CREATE VIEW sides AS SELECT * FROM hidden;")},
    protected={PERSONS: HELD},
    behind={
        TableName("x", "main", "hidden"): Stored(("x", "main", "hidden"), {"side": "VARCHAR"}),
        TableName("x", "main", "adults"): View(
            ("x", "main", "adults"), "CREATE VIEW adults AS SELECT * FROM persons WHERE age > 17;"
        ),
    },
    macros=frozenset({"twice", "sizes"}),
    definitions={
        "twice": Macro("twice", ("x", "main"), ("n",), "(2 * n)"),
        "sizes": Macro("sizes", ("x", "main"), (), "SELECT hid, count(*) AS n FROM persons GROUP BY hid", True),
    },
)
PUBLISHED = Publication("persons_k5", Location("x", "main", "persons"), "records", ("age",))
_ANSWER = re.compile(r"answer_[0-9a-f]{32}")


def decided(sql: str, *publications: Publication, **changed: object) -> Decision:
    """What becomes of a statement. changed: fields of the policy."""
    held = replace(HELD, policy=replace(POLICY, **changed))  # type: ignore[arg-type]
    releases = AvailableReleases({PERSONS: publications} if publications else {})
    return decide(admit(sql), replace(CATALOG, protected={PERSONS: held}), table_functions(), releases, TODAY)


def numbered(text: str) -> str:
    """The text with answers numbered by first appearance, in place of their keys."""
    known: dict[str, str] = {}
    return _ANSWER.sub(lambda one: known.setdefault(one[0], f"answer_{len(known) + 1}"), text)


def same(text: str, other: str) -> bool:
    """Whether two outcomes are equal; SQL as the installed version of sqlglot spells it."""
    if "refused: " in (text[:9], other[:9]):
        return text == other
    return bool(parse_one(text, read="duckdb").sql("duckdb") == parse_one(other, read="duckdb").sql("duckdb"))
