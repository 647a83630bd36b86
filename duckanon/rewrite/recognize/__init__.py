"""Recognisers: what a statement asks of protected tables, on sqlglot's trees and without a database.

`findings_in(statement, schema)` resolves every SELECT to a block (sources, filter, keys, outputs as expressions over
base columns), gives equal queries one form, and reports each use of a protected table once: as the kind that it is
proven to be, else as a read of records or as unknown.
"""

from duckanon.catalog.names import TableName, fold
from duckanon.catalog.snapshot import Stored, View
from duckanon.rewrite.bind_scripts import Schema
from duckanon.rewrite.recognize.canonical import canonical
from duckanon.rewrite.recognize.findings import (
    Aggregates,
    Conditional,
    Counts,
    Finding,
    GroupSizes,
    RecordReads,
    Unknown,
)
from duckanon.rewrite.recognize.scripts import findings_in, relation
from duckanon.rewrite.recognize.summary import summary

__all__ = [
    "Aggregates",
    "Conditional",
    "Counts",
    "Finding",
    "GroupSizes",
    "RecordReads",
    "Schema",
    "Stored",
    "TableName",
    "Unknown",
    "View",
    "canonical",
    "findings_in",
    "fold",
    "relation",
    "summary",
]
