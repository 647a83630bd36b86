"""Recognisers: what a statement asks of protected tables, on sqlglot's trees and without a database.

`spot(statement, schema)` resolves every SELECT to a block (sources, filter, keys, outputs as expressions over base
columns), gives equal queries one form, and tells each reach for a protected table once: as the kind that it is proven
to be, else as a row-level read or as unknown.
"""

from duckanon.catalog.names import TableName, fold
from duckanon.rewrite.algebra.schema import Schema, Stored, View
from duckanon.rewrite.recognize.canonical import canonical
from duckanon.rewrite.recognize.classify import relation, spot
from duckanon.rewrite.recognize.findings import Conditional, Counts, Finding, GroupSizes, RowLevel, Unknown
from duckanon.rewrite.recognize.summary import summary

__all__ = [
    "Conditional",
    "Counts",
    "Finding",
    "GroupSizes",
    "RowLevel",
    "Schema",
    "Stored",
    "TableName",
    "Unknown",
    "View",
    "canonical",
    "fold",
    "relation",
    "spot",
    "summary",
]
