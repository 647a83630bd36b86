"""Files of offices: Excel, SPSS, SAS and Stata, as Arrow tables, with the labels of variables and of values.

openpyxl, pyreadstat and pandas come with the extra `office`, and are imported when such a file is read or written, as
pyarrow is.
"""

from __future__ import annotations

import datetime
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = {
    ".xlsx": "excel",
    ".sav": "spss",
    ".zsav": "spss",
    ".dta": "stata",
    ".sas7bdat": "sas",
    ".xpt": "sas transport",
}
_LIBRARIES = ("openpyxl", "pyreadstat", "pandas", "et_xmlfile", "narwhals")
# Up to this a DOUBLE, the only type of numbers in these files, holds all whole numbers.
_LARGEST = 2**53
_MOST_ROWS = 1_048_575
_LONGEST = {"spss": 255, "stata": 80, "sas transport": 255}
_LABELS_SHEET = "labels"
# A column's name in SPSS, Stata and SAS. (SPSS has longer ones and some signs more.)
_NAME = re.compile(r"[^\W\d]\w{0,31}")
_LONGEST_VALUE_LABEL = 120
_ENDS = {
    "_lo": "lowest in the class",
    "_hi": "highest in the class",
    "_set": "values in the class",
    "_label": "label of the class",
    "_mean": "mean of the class",
    "_median": "middle value of the class",
    "_mode": "commonest value of the class",
}


@dataclass(frozen=True)
class Labels:
    """What a file says of its columns. variables: a text for each column. values: by column, texts for its codes.

    measures: SPSS's level of measurement of each column.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[Any, str]] = field(default_factory=dict)
    measures: Mapping[str, str] = field(default_factory=dict)

    def of_release(self, columns: Sequence[str]) -> Labels:
        """The labels of a release's columns: `age_lo` and `age_hi` have those of `age`."""
        named = {name.lower(): name for name in {**self.variables, **self.values, **self.measures}}
        variables, values, measures = {}, {}, {}
        for column in columns:
            end = next((end for end in _ENDS if column.lower().endswith(end)), "")
            own = named.get(column.lower())
            origin = own or named.get(column.lower().removesuffix(end) if end else "")
            if origin is None:
                continue
            if origin in self.variables:
                text = "" if own else f" ({_ENDS[end]})"
                variables[column] = self.variables[origin] + text
            if origin in self.values:
                values[column] = self.values[origin]
            if origin in self.measures and (own or end in ("_lo", "_hi")):
                measures[column] = self.measures[origin]
        return Labels(variables, values, measures)


def read(path: Path, kind: str) -> pa.Table:
    """The records of a file. Codes stay codes, values that the file calls missing are NULL, and so are blank texts.

    Of a workbook it is the first sheet, with the names of the columns in its first row. Raises InvalidInput where the
    extra is missing, and for a file that is damaged or of another kind.
    """
    with _explained(path, "read"):
        return _of_workbook(path) if kind == "excel" else _of_statistics(path, kind)


def labels(path: Path, kind: str) -> Labels:
    """The labels in a file. Raises InvalidInput as `read` does."""
    if kind == "excel":
        return Labels()
    with _explained(path, "read"):
        _, meta = _reader(kind)(str(path), metadataonly=True)
    return Labels(
        {name: text for name, text in meta.column_names_to_labels.items() if text},
        dict(meta.variable_value_labels),
        {name: text for name, text in meta.variable_measure.items() if text != "unknown"},
    )


def write(path: Path, kind: str, table: pa.Table, labels: Labels) -> None:
    """Write a table of numbers, texts, days and times, with the labels of its columns.

    A workbook gets them on a second sheet. Raises InvalidInput where the extra is missing, and for what the format
    cannot hold, and OSError.
    """
    unfit = [name for name in table.column_names if kind != "excel" and not _NAME.fullmatch(name)]
    if unfit:
        raise InvalidInput(
            f'The format has no column named "{unfit[0]}": a name is a letter, then up to 31 letters, digits and _. '
            "Rename the column, or write a .csv or .parquet file instead."
        )
    with _explained(path, "written"):
        if kind == "excel":
            _to_workbook(path, table, labels)
        else:
            _to_statistics(path, kind, table, labels)


def fitting(kind: str, column: str, sql_type: str) -> str:
    """SQL for a column as a file of this kind can hold it. column: quoted. sql_type: DuckDB's name of its type."""
    base = sql_type.partition("(")[0]
    if base.endswith("[]") or base in ("STRUCT", "MAP", "UNION", "JSON"):
        return f"CASE WHEN {column} IS NOT NULL THEN to_json({column})::VARCHAR END"
    if base == "BOOLEAN":
        return column if kind == "excel" else f"{column}::TINYINT"
    if base in ("HUGEINT", "UHUGEINT", "UBIGINT", "DECIMAL", "FLOAT"):
        return f"{column}::DOUBLE"
    if base.startswith("TIMESTAMP"):
        return f"{column}::TIMESTAMP"
    is_plain = base in ("DOUBLE", "DATE", "VARCHAR") or base.endswith(("INT", "INTEGER"))
    return column if is_plain else f"{column}::VARCHAR"


@contextmanager
def _explained(path: Path, done: str) -> Iterator[None]:
    """Turn the libraries' errors into sentences, without what they quote of the data."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _LIBRARIES:
            raise
        raise InvalidInput(
            "Files of Excel, SPSS, SAS and Stata need an extra: pip install 'duckanon[office]'."
        ) from None
    except (InvalidInput, OSError):
        raise
    except Exception as error:  # the libraries raise errors of many kinds
        if done == "read":
            raise InvalidInput(f"{path} is damaged, or of another kind than its suffix says.") from error
        raise InvalidInput(
            "The format cannot hold these records, perhaps because of a control character or a very long text: write a "
            ".csv or .parquet file instead."
        ) from error


# --- SPSS, SAS and Stata ----------------------------------------------------------------------------------------------


def _reader(kind: str) -> Callable[..., tuple[Any, Any]]:
    import pyreadstat

    readers: dict[str, Any] = {
        "spss": pyreadstat.read_sav,
        "stata": pyreadstat.read_dta,
        "sas": pyreadstat.read_sas7bdat,
        "sas transport": pyreadstat.read_xport,
    }
    found: Callable[..., tuple[Any, Any]] = readers[kind]
    return found


def _of_statistics(path: Path, kind: str) -> pa.Table:
    import pyarrow as pa

    frame, _ = _reader(kind)(str(path))
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    return pa.table({name: _plain(table[name]) for name in table.column_names})


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers as integers, blank texts as NULL; a column without any value is text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        whole = pc.all(pc.and_(pc.equal(column, pc.floor(column)), pc.less(pc.abs(column), _LARGEST))).as_py()
        return column.cast(pa.int64()) if whole and column.null_count < len(column) else column
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pc.if_else(pc.equal(column, ""), None, column).cast(pa.string())
    return column.cast(pa.string()) if pa.types.is_null(column.type) else column


def _to_statistics(path: Path, kind: str, table: pa.Table, labels: Labels) -> None:
    import pandas as pd
    import pyarrow as pa
    import pyreadstat

    frame = table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get, date_as_object=True)
    longest = _LONGEST[kind]
    given: dict[str, Any] = {"column_labels": {name: text[:longest] for name, text in labels.variables.items()}}
    if kind == "sas transport":
        pyreadstat.write_xport(frame, str(path), file_format_version=8, **given)
        return
    given["variable_value_labels"] = _codes(labels, table, kind)
    if kind == "stata":
        pyreadstat.write_dta(frame, str(path), **given)
    else:
        given["variable_measure"] = {name: text for name, text in labels.measures.items() if name in frame}
        pyreadstat.write_sav(frame, str(path), row_compress=True, **given)


def _codes(labels: Labels, table: pa.Table, kind: str) -> dict[str, dict[Any, str]]:
    """The labels of values, with codes of the columns' types. Stata has labels of whole numbers only."""
    import pyarrow as pa

    found: dict[str, dict[Any, str]] = {}
    for name, texts in labels.values.items():
        if name not in table.column_names:
            continue
        type_ = table.schema.field(name).type
        codes: dict[Any, str] = {}
        if pa.types.is_integer(type_):
            codes = {int(code): text for code, text in texts.items() if _is_whole(code)}
        elif kind == "spss" and pa.types.is_floating(type_):
            codes = {float(code): text for code, text in texts.items() if isinstance(code, int | float)}
        elif kind == "spss" and pa.types.is_string(type_):
            own = {code: text for code, text in texts.items() if isinstance(code, str)}
            codes = _sets(table[name], texts) or own
        if codes:
            found[name] = codes
    return found


def _sets(column: pa.ChunkedArray, texts: Mapping[Any, str]) -> dict[Any, str]:
    """A label for each set of codes in a column, such as `male, female` for `[1,2]`, where it is short enough."""
    found = {}
    for value in column.unique().to_pylist():
        codes = _listed_codes(value)
        label = ", ".join(texts.get(code, str(code)) for code in codes)
        if codes and len(label.encode()) <= _LONGEST_VALUE_LABEL:
            found[value] = label
    return found


def _listed_codes(text: str | None) -> list[Any]:
    """The codes of a set; none if the text is no set."""
    try:
        codes = json.loads(text or "")
    except ValueError:
        return []
    return codes if isinstance(codes, list) else []


def _is_whole(code: Any) -> bool:
    return isinstance(code, int | float) and code == int(code)


# --- Excel ------------------------------------------------------------------------------------------------------------


def _of_workbook(path: Path) -> pa.Table:
    import pyarrow as pa
    from openpyxl import load_workbook

    with path.open("rb") as file:
        book = load_workbook(file, read_only=True, data_only=True)
        rows = [row for row in book.worksheets[0].iter_rows(values_only=True) if any(cell is not None for cell in row)]
        book.close()
    if not rows:
        raise InvalidInput(f"{path}: the first sheet is empty. Its first row has the names of the columns.")
    head, *records = rows
    columns: dict[str, pa.Array] = {}
    for at in range(max(map(len, rows))):
        values = [row[at] if at < len(row) else None for row in records]
        name = str(head[at]).strip() if at < len(head) and head[at] is not None else ""
        if not name and all(value is None for value in values):
            continue
        if not name or name in columns:
            text = "no name" if not name else "the same name as one before"
            raise InvalidInput(f"{path}: column {_letter(at)} has {text} in the first row. Name each column once.")
        columns[name] = _typed(values)
    return pa.table(columns)


def _letter(at: int) -> str:
    """A column's name in Excel: A, B, ..., AA."""
    letters = ""
    while at >= 0:
        letters = chr(ord("A") + at % 26) + letters
        at = at // 26 - 1
    return letters


def _typed(values: Sequence[Any]) -> pa.Array:
    """A column of cells, as whole numbers, numbers, days, times or texts: the narrowest type that holds all."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds and kinds <= {int, float}:
        is_whole = all(value is None or (value == int(value) and abs(value) < _LARGEST) for value in values)
        return pa.array([value if value is None else int(value) for value in values] if is_whole else values)
    if kinds == {datetime.datetime}:
        days = all(value is None or value.time() == datetime.time() for value in values)
        return pa.array(values, pa.timestamp("us")).cast(pa.date32()) if days else pa.array(values, pa.timestamp("us"))
    return pa.array([value if value is None else _text(value) for value in values], pa.string())


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)


def workbook(sheet: str, rows: Iterable[Sequence[Any]]) -> bytes:
    """A workbook of one sheet. Raises InvalidInput where the extra is missing."""
    out = io.BytesIO()
    with _explained(Path(f"{sheet}.xlsx"), "written"):
        from openpyxl import Workbook

        book = Workbook(write_only=True)
        _fill(book.create_sheet(sheet), rows)
        book.save(out)
    return out.getvalue()


def _to_workbook(path: Path, table: pa.Table, labels: Labels) -> None:
    from openpyxl import Workbook

    if table.num_rows > _MOST_ROWS:
        raise InvalidInput(f"A sheet of Excel holds {_MOST_ROWS:,} records: write a .csv or .parquet file instead.")
    book = Workbook(write_only=True)
    sheet = book.create_sheet("records")
    _fill(sheet, [table.column_names])
    for batch in table.to_batches():
        _fill(sheet, zip(*(column.to_pylist() for column in batch.columns), strict=True))
    if labels.variables or labels.values:
        about = book.create_sheet(_LABELS_SHEET)
        _fill(about, [("column", "label", "value", "value's label"), *_listed(labels, table.column_names)])
    book.save(path)


def _fill(sheet: Any, rows: Iterable[Sequence[Any]]) -> None:
    """Append rows to a sheet."""
    from openpyxl.cell import WriteOnlyCell

    for row in rows:
        cells = [WriteOnlyCell(sheet, value=value) for value in row]
        for cell, value in zip(cells, row, strict=True):
            if isinstance(value, str):
                cell.data_type = "s"  # a text that begins with = is no formula
        sheet.append(cells)


def _listed(labels: Labels, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The labels as rows: one for each column that has a label, one for each value that has one."""
    for name in columns:
        if name in labels.variables:
            yield name, labels.variables[name], None, None
        for code, text in labels.values.get(name, {}).items():
            yield name, None, int(code) if _is_whole(code) else code, text
