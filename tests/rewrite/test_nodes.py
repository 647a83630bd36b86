"""Our own walks and copies of sqlglot's trees are what sqlglot's are."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from duckanon.rewrite.algebra.nodes import ROOT, copied, kinds_of, nodes_of
from tests.rewrite.test_tpch import QUERIES

TEXTS = [one.sql.rstrip().rstrip(";") for one in QUERIES]


@pytest.mark.parametrize("text", TEXTS)
def test_a_copy_is_equal_and_shares_nothing(text: str) -> None:
    tree = parse_one(f"SELECT 1 /* said */ FROM ({text})", read="duckdb")
    tree.meta["mark"] = 1
    copy = copied(tree)
    assert repr(copy) == repr(tree.copy())
    assert copy.sql("duckdb") == tree.sql("duckdb")
    for one, other in zip(tree.walk(), copy.walk(), strict=True):
        assert one is not other
        assert (type(one), one.arg_key, one.index, one.meta, one.comments) == (
            type(other), other.arg_key, other.index, other.meta, other.comments
        )  # fmt: skip
        assert other is copy or any(other is each for each in other.parent.iter_expressions())
    copy.meta["mark"] = 2
    assert tree.meta["mark"] == 1
    assert copied(tree, ["expressions"]).expressions == []


@pytest.mark.parametrize("text", TEXTS)
def test_nodes_come_in_the_order_of_sqlglot(text: str) -> None:
    tree = parse_one(text, read="duckdb")
    for kinds in ((exp.Select,), (exp.Column, exp.Table), (exp.Func,), (ROOT,)):
        found, theirs = nodes_of(tree, *kinds), list(tree.find_all(*kinds))
        assert len(found) == len(theirs)
        assert all(one is other for one, other in zip(found, theirs, strict=True))


@pytest.mark.parametrize("text", TEXTS)
def test_kinds_are_those_of_which_nodes_are_found(text: str) -> None:
    tree = parse_one(text, read="duckdb")
    kinds, known = (
        kinds_of(tree),
        [one for one in vars(exp).values() if isinstance(one, type) and issubclass(one, ROOT)],
    )
    assert {one for one in known if one in kinds} == {one for one in known if nodes_of(tree, one)}
