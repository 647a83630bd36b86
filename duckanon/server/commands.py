"""Statements that are about the session and not about data: transactions, settings, cursors, COPY.

`command` recognises them. Every other text is passed to the guard or to DuckDB as it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from duckanon.server.errors import PgError
from duckanon.server.lexer import Token, tokens


@dataclass(frozen=True)
class Transaction:
    """action: 'begin', 'commit', 'rollback', 'savepoint', 'release' or 'rollback to'. name: of the savepoint."""

    action: str
    name: str = ""


@dataclass(frozen=True)
class Set:
    """Set a setting; a value of None sets it as it was at the start. name: '' for all of them."""

    name: str
    value: str | None


@dataclass(frozen=True)
class SetConfig:
    """Set a setting by the function set_config, which answers its new value. column: the name of that column."""

    name: str
    value: str
    column: str


@dataclass(frozen=True)
class Show:
    """Show a setting; all of them if name is ''."""

    name: str


@dataclass(frozen=True)
class Declare:
    """Open a cursor. hold: whether it outlives its transaction. binary: whether its rows are sent in binary."""

    name: str
    query: str
    binary: bool = False
    hold: bool = False


@dataclass(frozen=True)
class Fetch:
    """The next rows of a cursor. count: None for all. move: whether they are only skipped."""

    name: str
    count: int | None
    move: bool = False


@dataclass(frozen=True)
class CloseCursor:
    """name: None for all cursors."""

    name: str | None


@dataclass(frozen=True)
class CopyOptions:
    """How COPY writes or reads rows. form: 'text', 'csv' or 'binary'.

    is_matched: whether the header that is read must have the columns' names. escape: '' for the quote itself.
    """

    form: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    quote: str = '"'
    is_matched: bool = False
    escape: str = ""


@dataclass(frozen=True)
class CopyOut:
    """Send the rows of a query in bulk."""

    query: str
    options: CopyOptions = field(default_factory=CopyOptions)


@dataclass(frozen=True)
class CopyIn:
    """Take rows in bulk. table: its name as SQL. columns: those that are sent; none for all of them."""

    table: str
    columns: tuple[str, ...] = ()
    options: CopyOptions = field(default_factory=CopyOptions)


@dataclass(frozen=True)
class Deallocate:
    """Forget a prepared statement. name: None for all."""

    name: str | None


@dataclass(frozen=True)
class UserChange:
    """action: 'create', 'alter' or 'drop' a user. role: of a new one. password: or a verifier of it; '' for none.

    It is not shown: the log has `shown` in place of the text.
    """

    action: str
    name: str
    role: str = ""
    password: str = field(default="", repr=False)

    @property
    def shown(self) -> str:
        return f"{self.action.upper()} USER {self.name}"


@dataclass(frozen=True)
class Done:
    """A statement that has no effect here. tag: the answer to the client."""

    tag: str


@dataclass(frozen=True)
class Explain:
    """Show the plan of a query. form: 'text', 'json' or 'xml'. runs: whether the query runs for it."""

    query: str
    form: str = "text"
    runs: bool = False


@dataclass(frozen=True)
class EndStatement:
    """End what another session of the same user runs. process: its number. column: the name of the answer's column.

    session: whether the session ends too.
    """

    process: int
    column: str
    session: bool


@dataclass(frozen=True)
class DiscardAll:
    """Set the session back to its state at the start."""


Command: TypeAlias = (
    Transaction
    | Set
    | SetConfig
    | Show
    | Declare
    | Fetch
    | CloseCursor
    | CopyOut
    | CopyIn
    | Deallocate
    | UserChange
    | Done
    | DiscardAll
    | EndStatement
    | Explain
)
# Words after SHOW that are not settings: the guard or DuckDB answers these statements.
_LISTS = {"tables", "databases", "schemas", "variables"}


class _Words:
    """Reads a statement's tokens from first to last."""

    def __init__(self, text: str) -> None:
        self.text, self._tokens, self._at = text, [token for token in tokens(text) if token.text != ";"], 0

    @property
    def next(self) -> Token:
        return self._tokens[self._at] if not self.is_over else Token("end", "", len(self.text), len(self.text))

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._tokens)

    def take(self) -> Token:
        token = self.next
        self._at += 1
        return token

    @property
    def at(self) -> int:
        """How many tokens were taken."""
        return self._at

    def between(self, at: int) -> tuple[str, ...]:
        """The names among the tokens that were taken since."""
        return tuple(token.value for token in self._tokens[at : self._at] if token.kind in ("word", "name"))

    def skip(self, *words: str) -> str:
        """The next word if it is one of these, which is then taken; else ''."""
        word = self.next.word or self.next.text
        if not self.is_over and word in words:
            self._at += 1
            return word
        return ""

    def name(self) -> str:
        if self.next.kind not in ("word", "name"):
            raise _unclear()
        return self.take().value

    def end(self) -> None:
        if not self.is_over:
            raise _unclear()

    def rest(self) -> Sequence[Token]:
        found, self._at = self._tokens[self._at :], len(self._tokens)
        return found


def _unclear() -> PgError:
    return PgError("42601", "The statement cannot be understood: look for a mistake in it.")


def command(text: str) -> Command | None:
    """The statement about the session that a text is; None for other texts. Raises PgError for one with a mistake."""
    words = _Words(text)
    reads = _READS.get(words.next.word)
    if reads is None:
        return None
    words.take()
    return reads(words)


_Reads: TypeAlias = "Callable[[_Words], Command | None]"


def _transaction(action: str) -> _Reads:
    def read(words: _Words) -> Command | None:
        words.skip("transaction", "work")
        if action == "begin":
            # Isolation and access modes change nothing: each statement sees what is committed.
            words.rest()
        if action == "rollback" and words.skip("to"):
            return _savepoint("rollback to")(words)
        words.end()
        return Transaction(action)

    return read


def _start(words: _Words) -> Command | None:
    return _transaction("begin")(words) if words.skip("transaction") else None


def _savepoint(action: str) -> _Reads:
    def read(words: _Words) -> Command:
        if action != "savepoint":
            words.skip("savepoint")
        name = words.name()
        words.end()
        return Transaction(action, name)

    return read


def _set(words: _Words) -> Command | None:
    scope = words.skip("session", "local")
    if words.next.word == "transaction" or (scope and words.skip("characteristics")):
        words.rest()
        return Done("SET")
    if words.skip("time"):
        if not words.skip("zone"):
            raise _unclear()
        return Set("TimeZone", _zone(words))
    if words.skip("names"):
        return Set("client_encoding", _value(words))
    if words.next.word in ("variable", "global"):
        return None
    name = words.name()
    while words.skip("."):
        name += f".{words.name()}"
    if not words.skip("=", "to"):
        raise _unclear()
    return Set(name, _value(words))


def _value(words: _Words) -> str | None:
    """The value of a setting: a list becomes one text. None for DEFAULT."""
    found = words.rest()
    if not found:
        raise _unclear()
    if len(found) == 1:
        return None if found[0].word == "default" else found[0].value
    return "".join(f"{token.value} " if token.text == "," else token.value for token in found)


def _zone(words: _Words) -> str | None:
    """The zone of SET TIME ZONE: a name, LOCAL, a number of hours, or an INTERVAL."""
    if words.skip("local"):
        words.end()
        return None
    if words.skip("interval"):
        zone = words.take().value
        if words.skip("hour") and not (words.skip("to") and words.skip("minute")):
            raise _unclear()
        words.end()
        return zone
    return _value(words)


def _reset(words: _Words) -> Command:
    name = words.name()
    words.end()
    return Set("" if name == "all" else name, None)


def _show(words: _Words) -> Command | None:
    said = " ".join(token.word or token.value for token in words.rest()).replace(" . ", ".")
    if said == "all":
        return Show("")
    if said in ("transaction isolation level", "session transaction isolation level"):
        return Show("transaction_isolation")
    if said == "time zone":
        return Show("TimeZone")
    return None if said in _LISTS or not said or " " in said else Show(said)


def _declare(words: _Words) -> Command:
    name, binary, hold = words.name(), False, False
    while not words.skip("cursor"):
        option = words.skip("binary", "insensitive", "asensitive", "no", "scroll")
        if not option:
            raise _unclear()
        binary = binary or option == "binary"
    kind = words.skip("with", "without")
    if kind:
        if not words.skip("hold"):
            raise _unclear()
        hold = kind == "with"
    if not words.skip("for"):
        raise _unclear()
    return Declare(name, words.text[words.next.start :], binary, hold)


def _fetch(*, move: bool) -> _Reads:
    def read(words: _Words) -> Command:
        count: int | None = 1
        forward = words.skip("forward", "next")
        if words.next.kind == "number":
            digits = words.take().text
            if not digits.isdecimal():
                raise _unclear()
            count = int(digits)
        elif words.skip("all"):
            count = None
        elif (
            words.next.word in ("backward", "prior", "absolute", "relative", "first", "last") or words.next.text == "-"
        ):
            raise PgError("55000", "A cursor goes forward only: FETCH n FROM name.")
        elif forward == "":
            count = 1
        words.skip("from", "in")
        name = words.name()
        words.end()
        return Fetch(name, count, move)

    return read


def _close(words: _Words) -> Command:
    quoted = words.next.kind == "name"
    name = words.name()
    words.end()
    return CloseCursor(None if name == "all" and not quoted else name)


def _deallocate(words: _Words) -> Command:
    words.skip("prepare")
    quoted = words.next.kind == "name"
    name = words.name()
    words.end()
    return Deallocate(None if name == "all" and not quoted else name)


def _discard(words: _Words) -> Command:
    if words.skip("all"):
        return DiscardAll()
    words.skip("plans", "sequences")
    words.end()
    return Done("DISCARD")


def _copy(words: _Words) -> Command | None:
    start = words.next.start
    names: tuple[str, ...]
    if words.next.text == "(":
        end = _closing(words)
        query, table, names = words.text[start + 1 : end], "", ()
    else:
        words.name()
        while words.skip("."):
            words.name()
        name = words.text[start : words.next.start].strip()
        columns, begins = words.next.start, words.at
        listed = words.text[columns : _closing(words) + 1] if words.next.text == "(" else ""
        query = f"SELECT {listed[1:-1] or '*'} FROM {name}"  # noqa: S608 # it is what the client sent
        table, names = name, words.between(begins) if listed else ()
    direction = words.skip("to", "from")
    if not words.skip("stdout" if direction == "to" else "stdin"):
        return None
    if direction == "from" and not table:
        raise _unclear()
    options = _copy_options(words)
    return CopyOut(query, options) if direction == "to" else CopyIn(table, names, options)


def _closing(words: _Words) -> int:
    """The place of the parenthesis that closes the one that is next; all up to it is taken."""
    depth = 0
    while not words.is_over:
        token = words.take()
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
        if depth == 0:
            return token.start
    raise _unclear()


_COPY_WORDS = {"format", "delimiter", "null", "header", "quote", "escape", "encoding", "csv", "binary", "text", "as"}


def _copy_options(words: _Words) -> CopyOptions:
    """The options of COPY, in parentheses or in PostgreSQL's older way."""
    words.skip("with")
    given: dict[str, str] = {}
    found = [token for token in words.rest() if token.text not in ("(", ")", ",") and token.word != "as"]
    at = 0
    while at < len(found):
        option = found[at].word
        at += 1
        if option not in _COPY_WORDS:
            raise PgError(
                "0A000", "COPY knows the options FORMAT, DELIMITER, NULL, HEADER, QUOTE, ESCAPE and ENCODING."
            )
        if option in ("csv", "binary", "text"):
            given["format"] = option
        elif option == "header" and (at == len(found) or found[at].word in _COPY_WORDS):
            given["header"] = "true"
        elif at < len(found):
            given[option] = found[at].value
            at += 1
        else:
            raise _unclear()
    form = given.get("format", "text").lower()
    if form not in ("text", "csv", "binary"):
        raise PgError("22023", "COPY's format is text, csv or binary.")
    options = CopyOptions(
        form,
        given.get("delimiter", "," if form == "csv" else "\t"),
        given.get("null", "" if form == "csv" else "\\N"),
        given.get("header", "false").lower() in ("true", "on", "1", "match"),
        given.get("quote", '"'),
        given.get("header", "").lower() == "match",
        given.get("escape", ""),
    )
    single = len(options.delimiter) == 1 and len(options.quote) == 1 and options.delimiter not in "\r\n\\"
    single = single and len(options.escape) <= 1
    if given.get("encoding", "utf8").lower().replace("-", "") not in ("utf8", "unicode"):
        raise PgError("0A000", "COPY knows the encoding UTF8 alone: convert the file.")
    if not single or options.delimiter == options.quote or set(options.null) & {"\r", "\n", options.delimiter}:
        raise PgError("22023", "COPY's DELIMITER and QUOTE are one character each, and NULL holds neither of them.")
    return options


def _user(action: str) -> _Reads:
    """CREATE, ALTER or DROP USER (or ROLE), as PostgreSQL writes it. SUPERUSER makes a steward."""

    def read(words: _Words) -> Command | None:
        if not words.skip("user", "role"):
            return None
        name, role, password = words.name(), "", ""
        words.skip("with")
        while action != "drop" and not words.is_over:
            option = words.skip("password", "encrypted", "superuser", "nosuperuser", "login")
            if option in ("superuser", "nosuperuser"):
                role = "steward" if option == "superuser" else "analyst"
            elif option == "password":
                if words.next.kind != "text":
                    raise _unclear()
                password = words.take().value
            elif not option:
                raise _unclear()
        words.end()
        return UserChange(action, name, role, password)

    return read


def _select(words: _Words) -> Command | None:
    """SELECT of a function that does something to this session or to another one; every other is a query."""
    if words.skip("pg_catalog") and not words.skip("."):
        return None
    name = words.skip("pg_cancel_backend", "pg_terminate_backend", "set_config")
    if not name or not words.skip("("):
        return None
    return _set_config(words) if name == "set_config" else _end_statement(words, name)


def _set_config(words: _Words) -> Command | None:
    setting, comma, value = words.take(), words.skip(","), words.take()
    is_constant = comma and setting.kind == value.kind == "text"
    if not is_constant or not words.skip(",") or not words.skip("true", "false") or not words.skip(")"):
        return None
    column = words.name() if words.skip("as") else "set_config"
    return SetConfig(setting.value, value.value, column) if words.is_over else None


def _end_statement(words: _Words, name: str) -> Command | None:
    process = words.take()
    if not process.text.isdecimal() or not words.skip(")"):
        return None
    column = words.name() if words.skip("as") else name
    return EndStatement(int(process.text), column, name == "pg_terminate_backend") if words.is_over else None


# The options of EXPLAIN: what they add to a plan is not known here.
_EXPLAINED = {
    "verbose",
    "costs",
    "settings",
    "generic_plan",
    "buffers",
    "serialize",
    "wal",
    "timing",
    "summary",
    "memory",
}
_OPTIONS = {"analyze", "analyse", "format", *_EXPLAINED}
_FORMS = ("text", "json", "xml")


def _explain(words: _Words) -> Command:
    given: dict[str, str] = {}
    for option in ("analyze", "analyse", "verbose"):
        if words.skip(option):
            given[option] = "on"
    start = words.next.start
    if words.skip("("):
        if words.next.word in _OPTIONS:
            given |= _explain_options(words)
            start = words.next.start
        words.rest()
    form = given.get("format", "text")
    if form not in _FORMS:
        raise PgError("22023", "A plan is shown as text, json or xml: EXPLAIN (FORMAT json) SELECT ...")
    runs = (given.get(text, "off") for text in ("analyze", "analyse"))
    return Explain(words.text[start:], form, any(run not in ("off", "false", "0") for run in runs))


def _explain_options(words: _Words) -> dict[str, str]:
    """The options up to the parenthesis that closes them."""
    explain_options: dict[str, str] = {}
    while True:
        option = words.take().word
        if option not in _OPTIONS:
            raise PgError(
                "42601", "EXPLAIN knows the options of PostgreSQL 15: FORMAT, ANALYZE, VERBOSE, COSTS and so on."
            )
        explain_options[option] = "on" if words.next.text in (",", ")") else words.take().value.lower()
        if words.skip(")"):
            return explain_options
        if not words.skip(","):
            raise _unclear()


def _unlisten(words: _Words) -> Command:
    words.rest()
    return Done("UNLISTEN")


def _listen(_: _Words) -> Command:
    raise PgError("0A000", "There are no notifications here.")


_READS = {
    "abort": _transaction("rollback"),
    "alter": _user("alter"),
    "begin": _transaction("begin"),
    "close": _close,
    "commit": _transaction("commit"),
    "copy": _copy,
    "create": _user("create"),
    "deallocate": _deallocate,
    "declare": _declare,
    "discard": _discard,
    "drop": _user("drop"),
    "end": _transaction("commit"),
    "explain": _explain,
    "fetch": _fetch(move=False),
    "listen": _listen,
    "move": _fetch(move=True),
    "notify": _listen,
    "release": _savepoint("release"),
    "reset": _reset,
    "rollback": _transaction("rollback"),
    "savepoint": _savepoint("savepoint"),
    "select": _select,
    "set": _set,
    "show": _show,
    "start": _start,
    "unlisten": _unlisten,
}
