import pytest

from duckanon.server.types import TYPES, ColumnType, column_type


@pytest.mark.parametrize(
    ("duckdb_type", "name", "modifier", "dimensions"),
    [
        ("BOOLEAN", "bool", -1, 0),
        ("UINTEGER", "int8", -1, 0),
        ("HUGEINT", "numeric", -1, 0),
        ("DECIMAL(10,2)", "numeric", (10 << 16 | 2) + 4, 0),
        ("DECIMAL(10,2)[]", "_numeric", (10 << 16 | 2) + 4, 1),
        ("INTEGER[]", "_int4", -1, 1),
        ("INTEGER[3][]", "_int4", -1, 2),
        ("TIMESTAMP WITH TIME ZONE", "timestamptz", -1, 0),
        ("ENUM('a', 'b[]')", "text", -1, 0),
        ("ENUM('a')[]", "_text", -1, 1),
        ("STRUCT(a INTEGER[], b VARCHAR)", "json", -1, 0),
        ("STRUCT(a INTEGER)[]", "json", -1, 0),
        ("MAP(VARCHAR, INTEGER)[][]", "json", -1, 0),
        ("JSON[]", "_json", -1, 1),
        ("GEOMETRY", "text", -1, 0),
    ],
)
def test_duckdb_types(duckdb_type, name, modifier, dimensions):
    found = column_type(duckdb_type)
    assert (found.type.name, found.modifier, found.dimensions) == (name, modifier, dimensions)


def test_arrays_and_their_elements_name_each_other():
    for one in TYPES.values():
        if one.array:
            array = TYPES.get(one.array)
            assert array is None or array.element == one.oid
        if one.name.startswith("_"):
            assert TYPES[one.element].array == one.oid


def test_every_number_is_known_once():
    assert column_type("BIGINT") == ColumnType(TYPES[20])
    assert len({one.name for one in TYPES.values()}) == len(TYPES)
