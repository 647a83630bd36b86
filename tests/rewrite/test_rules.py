"""Each rule by itself: what it settles, what it leaves, and what it says."""

from __future__ import annotations

from fractions import Fraction

import pytest

from duckanon.errors import PolicyRefusal, UnsupportedQuery
from duckanon.rewrite.decision import Copy, Noisy, Shares
from duckanon.rewrite.rules.plain_counts import spread
from tests.rewrite.guarded import decided

SIZES = "SELECT n, count(*) AS groups FROM (SELECT hid, count(*) AS n FROM persons GROUP BY hid) GROUP BY n"
SHARES = "SELECT sex, edu, count(*) / sum(count(*)) OVER (PARTITION BY sex) AS p FROM persons GROUP BY sex, edu"
COPY = "FROM k_anonymize('persons', ['age'], k := 5, drop := ['hid', 'state', 'sex', 'edu', 'name', 'income'])"


def refusal(sql: str, **changed: object) -> str:
    with pytest.raises(PolicyRefusal) as raised:
        decided(sql, **changed)
    return str(raised.value)


def test_open_calls() -> None:
    found = decided("FROM k_report('shops', ['state'])")
    assert found.calls == ["""TEMP.MAIN.k_report('"x"."main"."shops"', ['state'])"""] or "k_report" in found.calls[0]
    assert '"x"."main"."shops"' in (found.sql or "")
    assert "for the steward" in refusal("FROM k_report('persons', ['age'])")


def test_anonymized_copies() -> None:
    found = decided(COPY)
    (copy,) = found.copies
    assert isinstance(copy, Copy)
    assert copy.columns == ("age", "sick")
    assert "k_anonymize" not in (found.sql or "")
    assert "k must be 5 or more" in refusal(COPY.replace("k := 5", "k := 2"))
    assert "must include age" in refusal(COPY.replace("['age']", "['sex']").replace("'sex', ", ""))
    assert "must be dropped" in refusal(COPY.replace("'income'", "'hid'"))
    assert "no quasi_identifiers" in refusal(COPY, quasi_identifiers=())


def test_group_size_calls() -> None:
    call = "FROM dp_group_sizes('persons', 'hid', hierarchy := ['state'], epsilon := 0.5, max_size := 6)"
    (step,) = decided(call).steps
    assert (str(step.verdict), step.epsilon) == ("released", Fraction(1, 2))
    for old, new, why in [
        ("0.5", "0.6", "may cost epsilon 0.5"),
        ("'hid'", "'name'", "counts groups by hid"),
        ("['state']", "['sex']", "hierarchy must be the policy's"),
        ("max_size := 6", "max_size := 7", "max_size must be 6"),
    ]:
        assert why in refusal(call.replace(old, new))
    assert "offers no group sizes" in refusal(call, per_query=None)


def test_group_size_queries() -> None:
    found = decided(SIZES)
    assert "dp_group_sizes" in found.calls[0]
    assert [str(one.verdict) for one in found.steps] == ["rewritten"]
    assert "counts groups by hid" in refusal(SIZES.replace("hid", "name"))
    assert "counts of all records" in refusal(SIZES.replace("count(*) AS n", "sum(income) AS n"))
    assert "policy's hierarchy" in refusal(SIZES.replace("persons", "persons WHERE sick"))


def test_conditional_tables() -> None:
    (shares,) = decided(SHARES).copies
    assert isinstance(shares, Shares)
    assert (shares.rows, shares.cols, shares.used, shares.linkable) == (("sex",), ("edu",), ("sex", "edu"), ())
    (shares,) = decided("SELECT age, round(100 * avg(sick::INT), 1) AS p FROM persons GROUP BY age").copies
    assert isinstance(shares, Shares)
    assert (shares.linkable, shares.shares[0].digits) == (('"age"',), 3)
    assert shares.unit == "hid"
    for sql, why in [
        (SHARES.replace("edu", "income"), "columns that the policy calls"),
        (SHARES.replace("edu", "name"), "columns that the policy calls"),
        (SHARES.replace("persons", "persons WHERE sick"), "subtracted"),
        (SHARES.replace("AS p", "AS p, count(*) AS n"), "more than keys"),
        (SHARES.replace("count(*) /", "sum(age) /").replace("sum(count(*))", "sum(sum(age))"), "not of sums"),
    ]:
        assert why in refusal(sql, per_query=None), sql
    # What is no safe table of shares may still be computed from noisy counts.
    (noisy,) = decided(SHARES.replace("persons", "persons WHERE sick")).copies
    assert isinstance(noisy, Noisy)


def test_plain_counts() -> None:
    found = decided("SELECT sex, count(*) AS n FROM persons WHERE age > 3 GROUP BY sex ORDER BY n LIMIT 2")
    (noisy,) = found.copies
    assert isinstance(noisy, Noisy)
    # A unit's records are at most max_size, so noise is of that scale over epsilon.
    assert (noisy.epsilon, noisy.scale, noisy.keys) == (Fraction(1, 2), Fraction(12), 1)
    (alone,) = decided("SELECT count(*) FROM persons", unit=None).copies
    assert isinstance(alone, Noisy)
    assert alone.scale == 2
    assert "public" in refusal("SELECT age, count(*) FROM persons GROUP BY age")
    assert "fail on a record" in refusal("SELECT count(*) FROM persons WHERE name::INT = 3")
    assert "offers no counts" in refusal("SELECT count(*) FROM persons", per_query=None)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(2), Fraction(12), Fraction(50)])
def test_the_spread_is_the_least_that_holds_95_per_cent(scale: Fraction) -> None:
    from math import exp

    a = exp(-1 / scale)

    def beyond(m: int) -> float:
        return 2 * a ** (m + 1) / (1 + a)

    assert beyond(spread(scale)) <= 0.05
    assert spread(scale) == 0 or beyond(spread(scale) - 1) > 0.05


def test_inner_parts_and_parts_of_queries() -> None:
    around = decided(f"SELECT n + 1 AS m FROM ({SIZES}) WHERE groups > 2")
    assert "dp_group_sizes" in around.calls[0]
    having = decided(SIZES + " HAVING count(*) > 2")
    assert "_dk_core" in (having.sql or "")
    assert having.calls == around.calls
    window = decided("SELECT sex, count(*) / sum(count(*) + 1) OVER () FROM persons GROUP BY sex QUALIFY count(*) > 3")
    assert isinstance(window.copies[0], Noisy)
    both = decided(f"SELECT * FROM ({SIZES}) UNION ALL SELECT 0, count(*) FROM persons")
    assert {str(one.kind) for one in both.steps} == {"group sizes", "count"}


def test_row_level_reads() -> None:
    assert (
        f"An anonymous copy answers for them: {COPY.replace('state', 'State').replace('persons', 'Persons')}"
        in refusal("SELECT name FROM persons")
    )
    assert "no quasi_identifiers" in refusal("FROM adults", quasi_identifiers=())


def test_the_copy_that_is_suggested_can_be_made() -> None:
    # (Text has no order, so k_anonymize refuses it unless it is categorical.)
    call = (
        "FROM k_anonymize('Persons', ['STATE', 'age', 'sex'], k := 5, categorical := ['STATE', 'sex'], "
        "drop := ['hid', 'edu', 'name', 'income'])"
    )
    qi = ("STATE", "age", "sex")
    assert call in refusal("SELECT name FROM persons", quasi_identifiers=qi)
    assert decided(call, quasi_identifiers=qi).copies


def test_anything_else() -> None:
    assert "none of those that can be released" in refusal("SELECT sum(income) FROM persons")
    assert "no release" in refusal("SELECT sum(income) FROM persons", quasi_identifiers=(), unit=None)
    # One part refused is all refused.
    refusal(f"SELECT * FROM ({SIZES}), (SELECT max(income) FROM persons)")
    refusal(f"SELECT (SELECT max(name) FROM persons), n FROM ({SIZES})")


def test_what_touches_nothing_runs() -> None:
    for sql in (
        "SELECT 1",
        "SELECT state FROM shops",
        "CREATE TEMP TABLE a AS SELECT shop FROM shops",
        "DROP TABLE mine",
    ):
        assert [str(one.verdict) for one in decided(sql).steps] == ["runs"]
    for sql in ("INSERT INTO shops SELECT 1, 'a'", "DROP TABLE shops", "CREATE TEMP TABLE x.main.a AS SELECT 1"):
        with pytest.raises(UnsupportedQuery):
            decided(sql)
