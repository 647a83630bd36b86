"""Suppressed tables for print: totals by name, x for suppressed, one row for each row of the table."""

import io
from decimal import Decimal

import pytest

from duckanon.errors import InvalidInput
from duckanon.integrations.printed_tables import Cells, Printed
from tests.extras import needs

CELLS: Cells = {
    ((), ()): 9,
    ((), ("f",)): 4,
    ((), (None,)): 5,
    (("north",), ()): None,
    (("north",), ("f",)): Decimal("2.50"),
    (("north",), (None,)): None,
    (("north", "=1+1"), ()): 0,
    (("north", "=1+1"), ("f",)): 0,
    (("north", "=1+1"), (None,)): 0,
}


def test_totals_have_a_name_and_suppressed_cells_an_x() -> None:
    found = Printed.of(["state", "town"], ["sex"], CELLS, "Records")
    assert found.heads == ("state", "town", "Total", "f", "not stated")
    assert found.rows == (
        ("Total", "Total", 9, 4, 5),
        ("north", "Total", "x", Decimal("2.50"), "x"),
        ("north", "=1+1", 0, 0, 0),
    )


def test_a_category_that_is_called_total() -> None:
    cells: Cells = {((), ()): 3, (("Total",), ()): 1, (("not stated",), ()): 1, ((None,), ()): 1}
    found = Printed.of(["place"], [], cells, "Records")
    assert found.heads == ("place", "Records")
    assert [row[0] for row in found.rows] == ["All", "Total", "not stated", "no value"]


def test_two_columns_of_one_name() -> None:
    cells: Cells = {
        ((), ()): 2,
        ((), ("a, b",)): 1,
        ((), ("a", "b")): 1,
        (("x",), ()): 2,
        (("x",), ("a, b",)): 1,
        (("x",), ("a", "b")): 1,
    }
    assert Printed.of(["a, b"], ["c", "d"], cells, "Records").heads == ("a, b", "Total", "a, b (2)", "a, b (3)")


def test_files_have_the_same_numbers_and_no_formula() -> None:
    needs("office")
    from openpyxl import load_workbook
    from pyarrow import csv, parquet

    found = Printed.of(["state", "town"], ["sex"], CELLS, "Records")
    texts = [[str(one) for one in row] for row in found.rows]
    as_text = csv.ConvertOptions(column_types=dict.fromkeys(found.heads, "string"))
    for table in (
        csv.read_csv(io.BytesIO(found.file("csv")), convert_options=as_text),
        parquet.read_table(io.BytesIO(found.file("parquet"))),
    ):
        assert tuple(table.column_names) == found.heads
        assert [list(row) for row in zip(*table.to_pydict().values(), strict=True)] == texts
    sheet = load_workbook(io.BytesIO(found.file("excel"))).active
    assert list(sheet.values)[2] == ("north", "Total", "x", 2.5, "x")
    assert sheet["B4"].data_type == "s"


def test_more_columns_than_anybody_reads() -> None:
    cells: Cells = {((), (str(i),)): 1 for i in range(1001)}
    with pytest.raises(InvalidInput, match="has 1,001 columns: exchange its rows and columns"):
        Printed.of(["a"], ["b"], cells, "Records")
