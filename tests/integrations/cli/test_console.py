"""The interactive console, driven through a terminal that prompt_toolkit makes up, and its parts."""

import stat
import sys
import threading
import time
from io import StringIO
from pathlib import Path

import duckdb
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

import duckanon
from duckanon.errors import was_interrupted
from duckanon.integrations.cli import console
from duckanon.integrations.cli.completion import SqlCompleter, Vocabulary
from duckanon.integrations.cli.partial_sql import is_complete, open_quote
from duckanon.integrations.error_sentences import sentence
from duckanon.integrations.results import Format
from duckanon.integrations.terminal.progress import ProgressLine
from duckanon.integrations.terminal.session import Session

CTRL_C, CTRL_D, TAB, ENTER = "\x03", "\x04", "\t", "\r"


@pytest.fixture
def session():
    with Session() as opened:
        opened.con.execute('CREATE TABLE voters AS SELECT i AS age, i AS "Zip Code", i AS "order" FROM range(9) r(i)')
        opened.con.fetchall()
        yield opened


@pytest.fixture
def typed(session, capsys):
    """Type the keys, one after the other, and return what was printed."""

    def type_(*keys: str, history=None):
        with create_pipe_input() as keyboard:
            asked = threading.Event()
            attach = keyboard.attach

            def attached(ready):
                asked.set()
                return attach(ready)

            keyboard.attach = attached  # type: ignore[method-assign]

            def fingers():
                asked.wait(timeout=60)
                for before, key in zip(("", *keys), keys, strict=False):
                    # What Tab offers comes when it is found, and not to who types on.
                    time.sleep(1.0 if before == TAB else 0.15)
                    keyboard.send_text(key)

            hand = threading.Thread(target=fingers)
            hand.start()
            console.converse(session, history=history or InMemoryHistory(), source=keyboard, screen=DummyOutput())
            hand.join()
        return capsys.readouterr()

    return type_


def test_a_statement_over_several_lines(typed):
    found = typed("SELECT 40 +", ENTER, "2 AS answer", ENTER, ";" + ENTER, CTRL_D)
    assert "answer" in found.out
    assert "42" in found.out
    assert found.err == ""


def test_a_semicolon_in_a_string_does_not_submit(typed):
    found = typed("SELECT 'a;" + ENTER, "b' AS x;" + ENTER, CTRL_D)
    assert "a;\\nb" in found.out


def test_an_error_is_told_and_the_conversation_goes_on(typed):
    found = typed("SELECT nope;" + ENTER, "FROM k_report('voters', ['x']);" + ENTER, "SELECT 7 AS n;" + ENTER, CTRL_D)
    first, second = found.err.splitlines()
    assert first.startswith("Binder Error: ")
    assert second == 'There is no column "x" in voters; its columns are age, Zip Code, order.'
    assert "7" in found.out


def test_tab_completes_tables_and_functions(typed):
    found = typed(
        "SELECT max(age) AS oldest FROM vot", TAB, ";" + ENTER, "FROM k_rep", TAB, "'vot", TAB, CTRL_C, CTRL_D
    )
    assert "8" in found.out
    found = typed("FROM k_rep", TAB, "'vot", TAB, "', ['ag", TAB, "']);" + ENTER, CTRL_D)
    assert "singletons" in found.out
    assert found.err == ""


def test_enter_takes_the_chosen_completion_and_does_not_submit(typed):
    found = typed("FROM voters WHERE age = 3 ORDER BY ag", TAB, ENTER, " LIMIT 1;" + ENTER, CTRL_D)
    assert "1 row" in found.out


def test_ctrl_c_clears_what_is_typed(typed):
    found = typed("SELECT garbage", CTRL_C, "SELECT 5 AS five;" + ENTER, CTRL_D)
    assert "five" in found.out
    assert found.err == ""


def test_ctrl_c_cancels_what_runs(session, capsys, monkeypatch):
    calls = []

    def wait(*given: object, **named: object) -> None:
        calls.append(given)
        time.sleep(0.3)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("duckanon.integrations.terminal.session.wait", wait)
    started = time.monotonic()
    assert console._Console(session, Format.TABLE).obeys(
        "SELECT count(*) FROM range(1e12::BIGINT) r(i) WHERE i % 3 = 1;"
    )
    assert time.monotonic() - started < 20
    assert capsys.readouterr().err == "Cancelled.\n"


def test_dot_commands(typed):
    found = typed(".help" + ENTER, ".tables" + ENTER, ".nope" + ENTER, ".quit" + ENTER)
    assert "Ctrl-D leaves" in found.out
    assert "voters" in found.out
    assert found.err == "There is no command .nope: .help lists them.\n"


def test_statements_without_rows_are_acknowledged(typed):
    found = typed("CREATE TABLE t (i INT);" + ENTER, "INSERT INTO t VALUES (1), (2);" + ENTER, CTRL_D)
    assert found.out.splitlines()[-2:] == ["Done.", "2 rows."]


def test_a_failed_transaction_can_be_rolled_back(typed):
    found = typed("BEGIN;" + ENTER, "SELECT error('x');" + ENTER, "ROLLBACK;" + ENTER, "SELECT 3 AS t;" + ENTER, CTRL_D)
    assert "3" in found.out
    assert found.err.splitlines() == ["x"]


def test_history_is_a_private_file(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "state"))
    path = tmp_path / "state" / "duckanon" / "history"
    assert console.history_path() == path
    console._history().append_string("SELECT 1;")
    assert "SELECT 1;" in path.read_text()
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_history_without_a_place_for_a_file(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "file"))
    assert isinstance(console._history(), InMemoryHistory)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ann"))
    if sys.platform != "win32":
        assert console.history_path() == Path("/home/ann/.local/state/duckanon/history")


# --- completion -------------------------------------------------------------------------------------------------------


@pytest.fixture
def offered(session):
    completer = SqlCompleter(lambda: Vocabulary.of(session.con), {".help": "", ".quit": ""})

    def of(text: str, *, asked: bool = False):
        event = CompleteEvent(completion_requested=asked)
        return [one.text for one in completer.get_completions(Document(text), event)]

    return of


def test_what_is_offered(offered):
    assert "SELECT" in offered("SEL")
    assert "select" in offered("sel")
    assert "k_anonymize(" in offered("FROM k_a")
    assert "voters" in offered("FROM V")
    assert '"Zip Code"' in offered("SELECT zi")
    assert '"order"' in offered("SELECT ord")
    assert "age" in offered("SELECT v.a")
    assert offered("FROM _dk") == []
    assert offered(".q") == [".quit"]


def test_inside_a_string_only_bare_names_are_offered(offered):
    assert offered("FROM k_anonymize('vot") == ["voters"]
    assert offered("FROM k_anonymize('voters', ['Zi") == ["Zip Code"]
    assert offered("FROM k_report('sel") == []


def test_nothing_is_offered_unasked_after_a_space(offered):
    assert offered("SELECT ") == []
    assert "voters" in offered("SELECT ", asked=True)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("  ", True),
        (".help", True),
        ("select 1", False),
        ("select 1;", True),
        ("select 1; -- done", True),
        ("select 1; /* done */ ", True),
        ("select 1 -- not yet;", False),
        ("select 1 /* not yet;", False),
        ("select ';", False),
        ("select ';'", False),
        ("select ';';", True),
        ("select 'it''s;", False),
        ('select 1 as ";', False),
        ('select 1 as "a"";";', True),
        ("select $$;", False),
        ("select $$;$$;", True),
        ("select $a$;$$;$a$;", True),
        ("select $1;", True),
        ("-- only a comment", False),
    ],
)
def test_when_enter_submits(text, complete):
    assert is_complete(text) is complete


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("", ""),
        ("f('", "'"),
        ("f('a'", ""),
        ("f('a''", "'"),
        ('"a', '"'),
        ("-- it's", ""),
        ("/* ' */ '", "'"),
        ("$$ '", ""),
    ],
)
def test_open_quote(text, quote):
    assert open_quote(text) == quote


# --- progress ---------------------------------------------------------------------------------------------------------


def drawn(seconds: float, *, terminal: bool, patience: float = 0.1) -> str:
    written = StringIO()
    screen = Console(force_terminal=terminal, width=80, file=written)
    line = ProgressLine(screen, patience)
    with line.shown("Reading [red]"):
        line.tell("k_anonymize [red]", 0.5)
        time.sleep(seconds)
    return written.getvalue()


def test_progress_is_shown_when_it_takes_long_and_leaves_no_trace():
    found = drawn(0.5, terminal=True)
    assert "k_anonymize [red]" in found
    # The last thing done is to erase the line and to show the cursor again.
    assert found.endswith("\x1b[2K")
    assert "\x1b[?25h" in found


def test_progress_is_silent_when_it_is_quick_or_nobody_looks():
    assert drawn(0.0, terminal=True, patience=5) == ""
    assert drawn(0.4, terminal=False) == ""


def test_the_clock_goes_on_when_a_step_is_done_and_the_next_one_runs():
    written = StringIO()
    line = ProgressLine(Console(force_terminal=True, width=80, file=written), patience=0.1)
    with line.shown("first"):
        line.tell("first", 1.0)
        time.sleep(0.4)
        line.tell("second")
        time.sleep(1.0)
    assert "second" in written.getvalue()
    assert "0:00:01" in written.getvalue()


def test_memory_that_does_not_suffice_gets_a_way_out():
    con = duckanon.connect(config={"memory_limit": "50MB", "temp_directory": "", "threads": 1})
    with con, pytest.raises(duckdb.OutOfMemoryException) as caught:
        con.execute("CREATE TABLE t AS SELECT i, repeat(i::VARCHAR, 20) AS s FROM range(3_000_000) r(i)").fetchall()
    said = sentence(caught.value)
    assert said.startswith("DuckDB needs more memory than memory_limit allows: raise it with SET memory_limit = '8GB'")
    assert "guides/performance" not in said


def test_the_console_says_which_role(tmp_path, capsys):
    path = tmp_path / "x.duckdb"
    with Session(path) as opened:
        opened.con.execute("CREATE TABLE t AS SELECT 1 AS x; SELECT protect('t', epsilon := 1)").fetchall()
        said = _said(opened, capsys)
        assert "You are a steward" in said
        assert "duckdb_tables" not in said
    with Session(path) as opened:
        said = _said(opened, capsys)
        assert "You are an analyst" in said
        assert "│ main   │ t    │ protected │" in said
        found = Vocabulary.of(opened.con)
        assert (found.tables, found.columns) == ({"t": "protected in main"}, {"x": "column of t"})


def test_the_prompt_says_who_is_at_work_among_protected_tables(tmp_path):
    path = tmp_path / "x.duckdb"
    with Session(path) as opened:
        session = console._Console(opened, Format.TABLE)
        assert session.who == "duckanon"
        session.obeys("CREATE TABLE t AS SELECT 1 AS x; SELECT protect('t', epsilon := 1);")
        assert session.who == "steward"
    with Session(path) as opened:
        assert console._Console(opened, Format.TABLE).who == "analyst"


def _said(session, capsys):
    with create_pipe_input() as keyboard:
        keyboard.send_text(".tables" + ENTER + CTRL_D)
        console.converse(session, history=InMemoryHistory(), source=keyboard, screen=DummyOutput())
    return capsys.readouterr().out


def test_ctrl_c_in_a_function_is_known_as_such(con):
    """Where statements run on the main thread, as in a notebook, it may come while DuckDB runs our Python."""

    def stopped(_):
        raise KeyboardInterrupt

    con.create_function("stopped", stopped, ["BIGINT"], "BIGINT", type="arrow")
    with pytest.raises(duckdb.InvalidInputException) as caught:
        con.execute("SELECT stopped(1)").fetchall()
    assert was_interrupted(caught.value)
    assert not was_interrupted(duckdb.InvalidInputException("Invalid Input Error: KeyboardInterrupt"))


def test_a_file_in_another_encoding_is_told_with_the_way_out(tmp_path):
    (tmp_path / "a.csv").write_bytes("Ort;n\nKöln;1\n".encode("cp1252"))
    with duckdb.connect() as con:
        with pytest.raises(duckdb.Error) as refused:
            con.execute(f"FROM '{tmp_path / 'a.csv'}'")
        assert "encoding := 'latin-1'" in sentence(refused.value)
        assert con.execute(f"SELECT Ort FROM read_csv('{tmp_path / 'a.csv'}', encoding := 'latin-1')").fetchall() == [
            ("Köln",)
        ]
