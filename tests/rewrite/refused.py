"""Refusals without a database: TPC-H's tables, of which customers, orders and lines of orders are protected."""

from __future__ import annotations

from fractions import Fraction

from duckanon.catalog.names import TableName
from duckanon.catalog.policy import Domain, Policy
from duckanon.catalog.snapshot import Catalog, Macro, Protected, Stored, View
from duckanon.errors import DuckanonError
from duckanon.releases.available import AvailableReleases
from duckanon.rewrite.admit import admit
from duckanon.rewrite.decide import decide
from duckanon.specification import table_functions
from tests.rewrite.fixtures import schema
from tests.rewrite.guarded import TODAY

_OPEN = ("part", "supplier", "partsupp", "nation", "region")
_STORED = {
    name.object: Stored(("tpch", "main", name.object), dict(one.types), keys=tuple(one.keys))
    for name, one in schema(script="tpch/schema").tables.items()
}
_POLICIES = {
    "customer": Policy(
        Fraction(10),
        population="customers",
        privacy_unit="c_custkey",
        public=("c_mktsegment", "c_nationkey", "c_phone"),
        domains={"c_mktsegment": ("BUILDING", "MACHINERY"), "c_nationkey": tuple(range(25))},
        bounds={"c_acctbal": ("-1000", "10000")},
        per_query=Fraction(1),
        drop=("c_name",),
    ),
    "orders": Policy(
        Fraction(10),
        population="customers",
        privacy_unit="o_custkey",
        rows_per_unit=10,
        unit="o_custkey",
        max_size=10,
        public=("o_orderstatus", "o_orderpriority", "o_clerk"),
        domains={"o_orderstatus": ("F", "O"), "o_orderpriority": ("1-URGENT", "2-HIGH")},
        bounds={"o_totalprice": ("0", "500000")},
        per_query=Fraction(1),
    ),
    "lineitem": Policy(
        Fraction(10),
        population="lines",
        privacy_unit="l_orderkey",
        rows_per_unit=7,
        public=("l_returnflag", "l_linestatus", "l_shipmode", "l_suppkey"),
        domains={"l_returnflag": ("A", "R"), "l_linestatus": ("F", "O"), "l_shipmode": ("MAIL", "SHIP")},
        bounds={"l_quantity": ("1", "50"), "l_extendedprice": ("0", "100000"), "l_discount": ("0", "0.1")},
        per_query=Fraction(1),
    ),
}


def _name(table: str) -> TableName:
    return TableName("tpch", "main", table)


def _held(table: str) -> Protected:
    policy, columns = _POLICIES[table], _STORED[table].columns
    domains = {one: Domain(f"domain_1_{at}", (one,)) for at, one in enumerate(policy.domains)}
    assert set(domains) <= set(columns)
    return Protected(policy, _STORED[table], version=1, edition=1, remaining=Fraction(10), domains=domains)


CATALOG = Catalog(
    search=[("tpch", "main")],
    tables={_name(one): _STORED[one] for one in _OPEN},
    protected={_name(one): _held(one) for one in _POLICIES},
    behind={
        _name("rich"): View(("tpch", "main", "rich"), "CREATE VIEW rich AS SELECT * FROM customer WHERE c_acctbal > 0;")
    },
    macros=frozenset({"net"}),
    definitions={"net": Macro("net", ("tpch", "main"), ("price", "off"), "(price * (1 - off))")},
)


def refusal(sql: str) -> str | None:
    """What is said to a statement that is refused; None if it is answered."""
    try:
        decide(admit(sql), CATALOG, table_functions(), AvailableReleases(), TODAY)
    except DuckanonError as error:
        return str(error)
    return None
