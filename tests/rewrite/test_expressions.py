"""Symbolic expressions: each has its own class, is written back as it was, and keeps its place among others."""

from __future__ import annotations

from typing import get_args

import pytest

from duckanon.catalog.names import TableName
from duckanon.catalog.snapshot import Stored
from duckanon.errors import PolicyRefusal
from duckanon.rewrite.algebra import expressions
from duckanon.rewrite.algebra.expressions import (
    NULL,
    TRUE,
    Aggregate,
    Arithmetic,
    Between,
    Branch,
    Case,
    Cast,
    Coalesce,
    Column,
    Comparator,
    Comparison,
    Constant,
    Expr,
    Field,
    Function,
    In,
    Interval,
    Is,
    Like,
    Negative,
    Not,
    Nullif,
    Operation,
    Operator,
    Or,
    Round,
    Unclear,
    Window,
    WindowFunction,
    Word,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.order import sort_key
from duckanon.rewrite.algebra.relations import Block
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.recognize import Schema, relation
from tests.rewrite.guarded import decided

COLUMNS = {"a": "INTEGER", "b": "INTEGER", "c": "BOOLEAN", "s": "VARCHAR", "d": "DATE", "r": "STRUCT(f INTEGER)"}
SCHEMA = Schema(tables={TableName("d", "main", "t"): Stored(("d", "main", "t"), COLUMNS)})
A, B, C, S, D = (Column(0, name) for name in "abcsd")
ONE, TWO = Constant("1"), Constant("2")
# Each class with the order in which it stands among others: stored answers are found by keys that depend on it.
EXPECTED: dict[str, tuple[Expr, str]] = {
    "a": (A, "Column(source=0, name='a')"),
    "NULL": (NULL, "Call(kind='Null', operands=(), shape=())"),
    "true": (TRUE, "Call(kind='Boolean', operands=(), shape=(('this', True),))"),
    "NOT c": (
        Not(C),
        "Call(kind='Not', operands=(Column(source=0, name='c'),), shape=(('this', 'part'),))",
    ),
    "c OR a >= 1": (
        Or(C, Comparison(">=", A, ONE)),
        "Call(kind='Or', operands=(Column(source=0, name='c'), Call(kind='GTE', operands=(Column(source=0, name='a'), "
        "Constant(value='1', is_text=False)), shape=(('this', 'part'), ('expression', 'part')))), "
        "shape=(('this', 'part'), ('expression', 'part')))",
    ),
    "a IS NULL": (
        Is(A, NULL),
        "Call(kind='Is', operands=(Column(source=0, name='a'), Call(kind='Null', operands=(), shape=())), "
        "shape=(('this', 'part'), ('expression', 'part')))",
    ),
    "a IN (1, 2)": (
        In(A, (ONE, TWO)),
        "Call(kind='In', operands=(Column(source=0, name='a'), Constant(value='1', is_text=False), "
        "Constant(value='2', is_text=False)), shape=(('this', 'part'), ('expressions', 'parts', 2)))",
    ),
    "a BETWEEN SYMMETRIC 1 AND 2": (
        Between(A, ONE, TWO, symmetric=True),
        "Call(kind='Between', operands=(Column(source=0, name='a'), Constant(value='2', is_text=False), "
        "Constant(value='1', is_text=False)), "
        "shape=(('this', 'part'), ('high', 'part'), ('low', 'part'), ('symmetric', True)))",
    ),
    "s NOT ILIKE 'x%'": (
        Like(S, Constant("x%", is_text=True), negated=True, ignores_case=True),
        "Call(kind='ILike', operands=(Column(source=0, name='s'), Constant(value='x%', is_text=True)), "
        "shape=(('this', 'part'), ('expression', 'part'), ('negate', True)))",
    ),
    "-a": (Negative(A), "Call(kind='Neg', operands=(Column(source=0, name='a'),), shape=(('this', 'part'),))"),
    "a // 2": (
        Arithmetic("//", A, TWO),
        "Call(kind='IntDiv', operands=(Column(source=0, name='a'), Constant(value='2', is_text=False)), "
        "shape=(('this', 'part'), ('expression', 'part')))",
    ),
    "CASE a WHEN 1 THEN b END": (
        Case((Branch(Comparison("=", A, ONE), B),), NULL),
        "Call(kind='Case', operands=(Call(kind='EQ', operands=(Column(source=0, name='a'), "
        "Constant(value='1', is_text=False)), shape=(('this', 'part'), ('expression', 'part'))), "
        "Column(source=0, name='b'), Call(kind='Null', operands=(), shape=())), shape=())",
    ),
    "TRY_CAST(s AS DECIMAL(9, 2))": (
        Cast(S, "DECIMAL(9, 2)", tries=True),
        "Call(kind='TryCast', operands=(Column(source=0, name='s'),), "
        "shape=(('this', 'part'), ('safe', True), ('to', 'type', 'DECIMAL(9, 2)')))",
    ),
    "coalesce(a, b)": (
        Coalesce((A, B)),
        "Call(kind='Coalesce', operands=(Column(source=0, name='a'), Column(source=0, name='b')), "
        "shape=(('this', 'part'), ('expressions', 'parts', 1)))",
    ),
    "nullif(a, 1)": (
        Nullif(A, ONE),
        "Call(kind='Nullif', operands=(Column(source=0, name='a'), Constant(value='1', is_text=False)), "
        "shape=(('this', 'part'), ('expression', 'part')))",
    ),
    "round(a, 1)": (
        Round(A, ONE),
        "Call(kind='Round', operands=(Column(source=0, name='a'), Constant(value='1', is_text=False)), "
        "shape=(('this', 'part'), ('decimals', 'part')))",
    ),
    "INTERVAL (a) MONTH": (
        Interval(A, "MONTH"),
        "Call(kind='Interval', operands=(Column(source=0, name='a'),), "
        "shape=(('this', 'part'), ('unit', 'Var', 'MONTH')))",
    ),
    "(r).f": (
        Field(Column(0, "r"), "f"),
        "Call(kind='Dot', operands=(Column(source=0, name='r'),), shape=(('field', 'f'),))",
    ),
    "foo(a, 1)": (
        Function("foo", (A, ONE)),
        "Call(kind='Anonymous', operands=(Column(source=0, name='a'), Constant(value='1', is_text=False)), "
        "shape=(('this', 'foo'), ('expressions', 'parts', 2)))",
    ),
    '"foo"()': (
        Function("foo", quoted=True),
        "Call(kind='Anonymous', operands=(), shape=(('this', 'Identifier', 'foo'),))",
    ),
    "date_trunc('month', d)": (
        Operation("TimestampTrunc", (("this", D), ("unit", Word("MONTH")))),
        "Call(kind='TimestampTrunc', operands=(Column(source=0, name='d'),), "
        "shape=(('this', 'part'), ('unit', 'Var', 'MONTH')))",
    ),
}
MORE = [
    "s LIKE 'x%' ESCAPE '!'", "a IN [1, 2]", "(a = 1) = c", "a - (b - 1)", "-(-a)", "NOT (a = 1 AND c)",
    "CASE WHEN c THEN 1 WHEN a > 2 THEN 2 ELSE 3 END", "trim(LEADING 'x' FROM s)", "extract(year FROM d)",
    "greatest(a, b, 1)", "d + INTERVAL 1 DAY", "current_date", "[a, b]", "s || 'x'", "concat(s, 'x')", "s ^@ 'x'",
    "substring(s, 1, 2)", "a IS NOT DISTINCT FROM b", "system.main.lower(s)", "a % 2 <> 1", "false", "c IS TRUE",
    "round(a)", "NOT a BETWEEN 1 AND b", "s SIMILAR TO 'x'", "a::VARCHAR", "coalesce(a)",
]  # fmt: skip


def translated(text: str) -> Expr:
    """The expression over columns of source 0."""
    block = relation(f"SELECT {text} AS y FROM d.main.t", SCHEMA)
    assert isinstance(block, Block)
    return rebuilt(block.outputs[0].expr, lambda one: Column(0, one.name) if isinstance(one, Column) else None)


@pytest.mark.parametrize("text", EXPECTED)
def test_each_expression_has_its_class(text: str) -> None:
    assert translated(text) == EXPECTED[text][0]


@pytest.mark.parametrize("text", EXPECTED)
def test_its_place_among_others_stays(text: str) -> None:
    assert sort_key(translated(text)) == EXPECTED[text][1]


@pytest.mark.parametrize("text", [one for one in [*EXPECTED, *MORE] if "SYMMETRIC" not in one])
def test_it_is_written_as_it_was(text: str) -> None:
    written = Renderer().text(translated(text))
    assert Renderer().text(translated(written)) == written


def test_every_operator_has_its_class() -> None:
    for sign in get_args(Comparator):
        assert translated(f"a {sign} b") == Comparison(sign, A, B)
    for sign in get_args(Operator):
        assert translated(f"a {sign} b") == Arithmetic(sign, A, B)


def test_the_arguments_of_an_aggregate() -> None:
    shown = Aggregate("list", (A,), order=(B,))
    assert translated("list(a ORDER BY b)") == shown
    assert shown.argument is None
    assert Aggregate("sum", (A,), distinct=True).argument == A
    assert Aggregate("quantile_cont", (A, ONE)).argument is None
    assert Aggregate("sum", (Aggregate("count"),)).is_of_aggregates
    assert not Aggregate("sum", (A,), where=frozenset({Is(A, NULL)})).is_of_aggregates


WHOLE = [
    *(expr for expr, _ in EXPECTED.values()),
    Aggregate("sum", (A,), where=frozenset({Is(B, NULL)}), order=(C,)),
    Window(WindowFunction("lag", (A, ONE)), frozenset({B}), (C,), "ROWS UNBOUNDED PRECEDING"),
    Unclear("foo", 1, (A,)),
    expressions.Row((A, B)),
    expressions.DistinctOn((A,)),
    expressions.And(A, B),
]


@pytest.mark.parametrize("expr", WHOLE, ids=lambda one: type(one).__name__)
def test_every_part_is_changed(expr: Expr) -> None:
    """Nothing but parts changes, and each does."""
    assert rebuilt(expr, lambda _: None) == expr
    changed = expr.with_parts(lambda one: Negative(one))
    assert sorted(map(repr, changed.parts)) == sorted(repr(Negative(one)) for one in expr.parts)
    renamed = rebuilt(expr, lambda one: Column(7, one.name) if isinstance(one, Column) else None)
    old, new = ([one for one in walk(each) if isinstance(one, Column)] for each in (expr, renamed))
    assert {(7, one.name) for one in old} == {(one.source, one.name) for one in new}


def test_a_function_with_its_schema_is_refused_with_a_sentence() -> None:
    share = "count(*) FILTER (WHERE system.main.lower(sex) = 'x') / count(*)"
    with pytest.raises(PolicyRefusal, match="A filter compares columns"):
        decided(f"SELECT sex, {share} FROM persons GROUP BY sex")
