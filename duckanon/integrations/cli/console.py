"""The interactive console: SQL over several lines, with history, completion and highlighting."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus, is_searching
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output
from pygments.lexers.sql import SqlLexer

from duckanon import __version__
from duckanon.integrations import roles
from duckanon.integrations.cli.completion import SqlCompleter, Vocabulary
from duckanon.integrations.cli.partial_sql import is_complete
from duckanon.integrations.cli.script import run_script
from duckanon.integrations.error_sentences import is_told, sentence
from duckanon.integrations.results import Format
from duckanon.integrations.roles import ROLES
from duckanon.integrations.terminal.errors import Cancelled
from duckanon.integrations.terminal.output import say
from duckanon.integrations.terminal.session import Session

_COMMANDS = {".help": "what can be typed here", ".tables": "the tables and views", ".quit": "leave"}
_HELP = """\
End a statement with ; and press Enter to run it. Enter alone starts a new line.
Tab completes. Up and Down, or Ctrl-R, bring back what was typed before.
Ctrl-C cancels what runs, or clears what is typed. Ctrl-D leaves.

.help    this text
.tables  the tables and views
.quit    leave

FROM k_anonymize('table', ['age', 'zip'], k := 5)   an anonymous copy
FROM k_report('table', ['age', 'zip'])              how exposed the table is
FROM k_compare('table', ['age', 'zip'], k := [2, 5, 10])   what a copy would lose"""
_OTHER = {"analyst": "--role steward lifts that.", "steward": "--role analyst keeps to the policies."}
_SEEN = """
SELECT table_schema AS "schema", table_name AS "name", lower(table_type) AS kind
FROM information_schema.tables ORDER BY ALL"""
_TABLES = """
SELECT database_name AS database, schema_name AS schema, name, kind, columns FROM (
  SELECT database_name, schema_name, table_name AS name, 'table' AS kind, column_count AS columns
  FROM duckdb_tables() WHERE NOT internal
  UNION ALL
  SELECT database_name, schema_name, view_name, 'view', column_count FROM duckdb_views() WHERE NOT internal
) ORDER BY ALL"""


def converse(
    session: Session,
    form: Format = Format.TABLE,
    *,
    history: History | None = None,
    source: Input | None = None,
    screen: Output | None = None,
) -> None:
    """Read statements and run them until Ctrl-D or .quit. After an error it goes on.

    source, screen: the terminal to use, if not the process's own.
    """
    console = _Console(session, form)
    prompt: PromptSession[str] = PromptSession(
        history=history if history is not None else _history(),
        completer=SqlCompleter(lambda: console.vocabulary, _COMMANDS),
        lexer=PygmentsLexer(SqlLexer),
        key_bindings=_keys(),
        multiline=True,
        prompt_continuation=lambda width, *_: "...> ".rjust(width),
        input=source,
        output=screen,
    )
    print(f"duckanon {__version__}. A semicolon ends a statement. .help tells more, Ctrl-D leaves.")
    print(f"{ROLES[session.con.role]} {_OTHER[session.con.role]}")
    while True:
        try:
            if not console.obeys(prompt.prompt(f"{console.who}> ").strip()):
                return
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


class _Console:
    """Runs what is typed. who: the word of the prompt."""

    def __init__(self, session: Session, form: Format) -> None:
        self._session = session
        self._form = form
        self.vocabulary, self.who = Vocabulary.of(session.con), roles.prompt(session.con)

    def obeys(self, text: str) -> bool:
        """Run the text. Returns whether the console goes on: False after .quit."""
        command = text.rstrip(";").strip()
        if command in {".quit", ".exit"}:
            return False
        if command == ".help":
            print(_HELP)
        elif command == ".tables":
            self._run(_SEEN if self._session.con.role == "analyst" else _TABLES)
        elif command.startswith("."):
            say(f"There is no command {command}: .help lists them.")
        elif text:
            self._run(text)
        return True

    def _run(self, text: str) -> None:
        try:
            run_script(self._session, text, self._form, chatty=True)
        except Cancelled:
            say("Cancelled.")
        except Exception as error:
            if not is_told(error):
                raise
            say(sentence(error))
        sys.stdout.flush()
        self._learn()

    def _learn(self) -> None:
        """Read the names of tables and columns again, since the statement may have changed them."""
        try:
            self.vocabulary, self.who = self._session.run(
                "Reading the catalogue", lambda con: (Vocabulary.of(con), roles.prompt(con))
            )
        except Exception as error:
            # A failed transaction runs no query until it is rolled back; the old names stay until then.
            if not is_told(error) and not isinstance(error, Cancelled):
                raise


def _keys() -> KeyBindings:
    keys = KeyBindings()
    typing: Callable[..., Any] = keys.add("enter", filter=has_focus(DEFAULT_BUFFER) & ~is_searching)

    @typing
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


def _history() -> History:
    """The history, in a file that only its owner can read; in memory if there can be no file."""
    path = history_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


def history_path() -> Path:
    """The history file: in XDG_STATE_HOME or ~/.local/state, on Windows in LOCALAPPDATA."""
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    else:
        root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(root) / "duckanon" / "history"
