"""Errors as they are sent to clients: PostgreSQL's code of five characters (SQLSTATE), and one sentence."""

from __future__ import annotations

import duckdb

from duckanon.errors import (
    BudgetExhausted,
    DuckanonError,
    Infeasible,
    InvalidInput,
    MachineFailure,
    NotRecorded,
    PolicyRefusal,
    UnsupportedQuery,
)


class PgError(Exception):
    """An error for the client. code: its SQLSTATE. text: one sentence."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


# Errors that are raised in several places, by `raise PgError(*CANCELLED)`.
CANCELLED = "57014", "The statement was cancelled."
TOO_LONG = "57014", "The statement took longer than it may: ask for less, or ask the steward for more time."
NO_MEMORY = "53200", "The statement needs more memory than there is: ask for less at once."
MEMORY_NEEDED = "53200", "The server needs its memory for another answer at this moment: ask again."
STILL_ENDING = "57014", "An earlier statement of this session has not ended yet: ask again later, or connect again."
STOPPING = "57P01", "The server is being stopped: connect again later."
REMOVED = "57P01", "The user was removed, or has another role now: connect again if you may."
TOO_MANY = "53300", "There are too many connections: close one, or try again later."
TOO_MANY_TRIES = "53300", "Too many logins of this name are tried from this address: try again later."
LOGIN_FAILED = "28P01", "The name or the password is wrong."
FAILED_TRANSACTION = "25P02", "The transaction has failed: ROLLBACK it, and begin again."

_OURS: tuple[tuple[type[Exception], str], ...] = (
    (PolicyRefusal, "42501"),
    (BudgetExhausted, "53400"),
    (UnsupportedQuery, "0A000"),
    (NotRecorded, "58000"),
    (InvalidInput, "22023"),
    (Infeasible, "22023"),
    (MachineFailure, "58000"),
)
# DuckDB's errors, subclasses first. Where there is a sentence, it replaces DuckDB's text, which may quote a value of
# the data.
_DUCKDB: tuple[tuple[type[Exception], str, str | None], ...] = (
    (duckdb.ParserException, "42601", None),
    (duckdb.SyntaxException, "42601", None),
    (duckdb.CatalogException, "42P01", None),
    (duckdb.BinderException, "42P10", None),
    (duckdb.PermissionException, "42501", None),
    (duckdb.NotImplementedException, "0A000", None),
    (duckdb.ConversionException, "22P02", "A value cannot be converted to the type that is asked for: use TRY_CAST."),
    (duckdb.OutOfRangeException, "22003", "A value is out of its type's range: cast to a larger type first."),
    (duckdb.ConstraintException, "23000", "A value breaks a constraint of the table."),
    (duckdb.OutOfMemoryException, *NO_MEMORY),
    (duckdb.TransactionException, "40001", None),
    (duckdb.InvalidInputException, "22023", "The statement failed on a value that it cannot work with."),
)
_UNKNOWN = "The statement failed: ask the steward, who finds the kind of error in the server's log."


def pg_error(error: BaseException, *, all_words: bool) -> PgError:
    """An error as it is sent to a client.

    all_words: whether DuckDB's own text is sent: for stewards, who may see data. An analyst gets the first line of
    errors about the SQL text and public names, and a fixed sentence for errors that may quote a value.
    """
    if isinstance(error, PgError):
        return error
    if isinstance(error, DuckanonError):
        return PgError(next((code for kind, code in _OURS if isinstance(error, kind)), "XX000"), str(error))
    if isinstance(error, duckdb.InterruptException):
        return PgError(*CANCELLED)
    if isinstance(error, MemoryError):
        return PgError(*NO_MEMORY)
    for kind, code, sentence in _DUCKDB:
        if isinstance(error, kind):
            words = str(error)
            return PgError(code, words if all_words else sentence or words.partition("\n")[0])
    return PgError("XX000", str(error) if all_words and isinstance(error, duckdb.Error) else _UNKNOWN)
