"""Records: what gets one, what its public part says and does not say, and certificates against all tables."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.errors import InvalidInput
from duckanon.functions.suppressed_tables import Place
from duckanon.integrations.record.certificates import certificate, check
from duckanon.integrations.record.suppressed_files import SuppressedTable, suppressed_table
from tests.amounts import many
from tests.functions.test_publication_crossed import LINKED, RECORDS, TWICE
from tests.integrations.record.offices import make, read, recorded, refused, run
from tests.walk import steps, walk

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "record.md"
VOTERS = PAGE.parents[2] / "sql" / "examples" / "voters.csv"


def test_the_public_part_names_its_files_and_no_sensitive_cell(office: Path) -> None:
    public, internal = read(office / "out.json"), read(office / "out.internal.json")
    (file,) = public["files"]
    assert (file["name"], file["publication"]["name"]) == ("hidden.csv", "hidden")
    assert file["certificate"]["least_width"] >= 2
    assert public["audits"] == [
        {"table": "main.people", "publications": ["hidden"], "verdict": "safe", "changed_records_accepted": False}
    ]
    assert (public["purpose"], public["recipient"], public["decided_by"]) == ("yearbook", "press", "A. Officer")
    text = (office / "out.json").read_text(encoding="utf-8")
    assert "primary" not in text
    assert "suppress(" not in text
    assert [(one["file"], len(one["primary"]), one["secondary_cells"]) for one in internal["calls"]] == [
        ("hidden.csv", 1, 3)
    ]
    assert internal["salt"]


def test_a_table_by_codes_is_recorded_and_verified_without_the_database(tmp_path: Path) -> None:
    """Its hierarchy goes with the record."""
    make(
        tmp_path,
        "CREATE TABLE codes AS FROM (VALUES ('011', '01'), ('012', '01'), ('02', NULL)) v(code, parent)",
        "CREATE TABLE people AS SELECT ['011', '012', '02'][1 + i % 3] AS kind, i // 3 % 3 AS sex FROM range(50) r(i) "
        "WHERE i % 9 <> 4 OR i > 40",
        "SELECT protect('people', epsilon := 1, public := ['kind', 'sex'], small := 3, k := 3)",
        "SELECT open_table('codes')",
        "CREATE TABLE hidden AS FROM suppress('people', ['kind'], ['sex'], hierarchies := {'kind': 'codes'})",
        "SELECT publish('hidden', variables := ['kind', 'sex'], value := 'value', suppressed := 'suppressed', "
        "hierarchies := {'kind': 'codes'})",
        f"COPY duckanon.hidden TO '{tmp_path}/hidden.csv'",
    )
    assert run("key", "new", tmp_path / "office.key").exit_code == 0
    done = recorded(tmp_path, "out.json")
    assert done.exit_code == 0, done.output
    (file,) = read(tmp_path / "out.json")["files"]
    assert file["codes"] == {"kind": [["011", "01"], ["012", "01"], ["02", None]]}
    assert file["certificate"]["solutions"]
    done = run("verify", tmp_path / "out.json", tmp_path / "hidden.csv")
    assert done.exit_code == 0, done.output
    assert "its proofs hold" in done.output


def test_a_table_that_can_be_undone_gets_no_record(office: Path) -> None:
    with duckdb.connect() as con:
        con.execute(
            f"COPY (SELECT * REPLACE (suppressed AND (value IS NULL) AND town = 'town 1' AND sex = 1 AS suppressed, "
            f"CASE WHEN value IS NULL AND NOT (town = 'town 1' AND sex = 1) THEN 7 ELSE value END AS value) "
            f"FROM read_csv('{office}/hidden.csv')) TO '{office}/undone.csv'"
        ).fetchall()
    refused(recorded(office, "undone.json", file="undone.csv"), "undone.csv is no publication")
    assert not (office / "undone.json").exists()


@pytest.mark.parametrize(
    "what",
    [
        "people",
        "(SELECT town, sex, count(*) AS n FROM people GROUP BY ALL)",
        "(FROM duckanon.hidden LIMIT 5)",
        "(FROM duckanon.hidden UNION ALL FROM duckanon.hidden)",
        "(SELECT * REPLACE (coalesce(value, 7) AS value) FROM duckanon.hidden)",
    ],
)
def test_what_is_no_publication_gets_no_record(office: Path, what: str) -> None:
    make(office, f"COPY {what} TO '{office}/raw.csv'")
    refused(recorded(office, "raw.json", file="raw.csv"), "raw.csv is no publication", "publish the table")
    assert not (office / "raw.json").exists()
    assert not (office / "raw.internal.json").exists()


@pytest.mark.parametrize("name", ["hidden.xlsx", "hidden.sav", "people.duckdb"])
def test_files_that_may_hold_more_than_a_table_get_no_record(office: Path, name: str) -> None:
    """A workbook may have the records on its second sheet."""
    (office / name).touch()
    refused(recorded(office, "more.json", file=name), "can hold more than the one table")


def test_a_file_is_named_once(office: Path) -> None:
    done = recorded(office, "twice.json", "--file", str(office / "hidden.csv"))
    refused(done, "A file is named twice")


def test_a_record_is_not_written_over_its_files(open_copy: Path) -> None:
    before = (open_copy / "open.json").read_bytes()
    refused(recorded(open_copy, "open.json", "--force", file="open.json"), "would be written over")
    assert (open_copy / "open.json").read_bytes() == before


@pytest.fixture(scope="module")
def open_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An office that published a k-anonymous table with texts that look like numbers, dates, and an empty text."""
    folder = tmp_path_factory.mktemp("open")
    make(
        folder,
        "CREATE TABLE people AS SELECT '00' || i % 3 AS code, i % 2 = 0 AS sex, '' AS empty, "
        "CASE WHEN i % 5 > 0 THEN DATE '2020-02-03' + i::INT END AS day FROM range(60) r(i)",
        "SELECT protect('people', epsilon := 1, quasi_identifiers := ['code', 'sex'], sensitive := ['day', 'empty'], "
        "k := 3)",
        "CREATE TABLE open AS FROM people",
        "SELECT publish('open')",
        *(f"COPY duckanon.open TO '{folder}/open.{kind}'" for kind in ("csv", "parquet", "json")),
    )
    assert run("key", "new", folder / "office.key").exit_code == 0
    return folder


@pytest.mark.parametrize("name", ["open.csv", "open.parquet", "open.json"])
def test_a_k_anonymous_table_that_is_published_gets_a_record(open_copy: Path, name: str) -> None:
    done = recorded(open_copy, f"{name}.json", file=name)
    assert done.exit_code == 0, done.output
    told = read(open_copy / f"{name}.json")
    assert [one["publication"]["kind"] for one in told["files"]] == ["records"]
    assert [one["verdict"] for one in told["audits"]] == ["no numbers to audit"]
    assert run("verify", open_copy / f"{name}.json", open_copy / name).exit_code == 0


@pytest.mark.parametrize(
    "call",
    [
        "k_anonymize('audit =1', ['code', 'sex'], k := 3, categorical := ['code', 'sex'])",
        "FROM k_anonymize('audit =1', ['code', 'sex'], k := 3, categorical := ['code', 'sex']);",
        "CREATE TABLE copy AS SELECT * EXCLUDE (note) FROM k_anonymize('noted', ['code', 'sex'], k := 3, "
        "categorical := ['code', 'sex'])",
    ],
)
def test_the_call_of_a_k_anonymous_table_is_kept_inside(call: str, tmp_path: Path) -> None:
    """Its file has codes that look like numbers, and its table a name that looks like an argument."""
    make(
        tmp_path,
        "CREATE TABLE \"audit =1\" AS SELECT '00' || i % 3 AS code, i % 2 = 0 AS sex, i % 7 AS ill FROM range(60) r(i)",
        "CREATE TABLE noted AS SELECT *, 'a note' AS note FROM \"audit =1\"",
        "SELECT protect('audit =1', epsilon := 1, quasi_identifiers := ['code', 'sex'], sensitive := ['ill'], k := 3)",
        "CREATE TABLE copy AS FROM k_anonymize('audit =1', ['code', 'sex'], k := 3, categorical := ['code', 'sex'])",
        "SELECT publish('copy')",
        f"COPY duckanon.copy TO '{tmp_path}/copy.csv'",
    )
    assert run("key", "new", tmp_path / "office.key").exit_code == 0
    done = recorded(tmp_path, "out.json", "--call", call, file="copy.csv")
    assert done.exit_code == 0, done.output
    assert read(tmp_path / "out.internal.json")["calls"] == [{"call": call, "file": "copy.csv"}]
    done = run("verify", tmp_path / "out.json", tmp_path / "copy.csv", tmp_path / "out.internal.json")
    assert done.exit_code == 0, done.output


def test_a_withdrawn_publication_gets_no_record(open_copy: Path, tmp_path: Path) -> None:
    for name in ("people.duckdb", "office.key", "open.csv"):
        shutil.copy(open_copy / name, tmp_path)
    make(tmp_path, "SELECT unpublish('open')")
    refused(recorded(tmp_path, "open.json", file="open.csv"), "open.csv is no publication", "a withdrawn one")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            ("--call", "suppress('people', ['town'], [])"),
            "it was made again, and no --file has the table that it gives now",
        ),
        (("--call", "dp_group_sizes('people')"), "--call is the call of suppress, k_anonymize or cell_key"),
        (("--call", "SELECT publish('x') FROM suppress('people', ['town'], [])"), "--call is the call of suppress"),
        (("--call", "suppress('people', ['town'], [], audit := true)"), "--call is the call of suppress"),
        (("--call", "k_anonymize('people', ['sex'], k := 3)"), "no --file has the table that it gives now"),
        (("--purpose", ""), "A record says which files leave"),
    ],
)
def test_records_that_are_not_written(office: Path, more: tuple[str, ...], says: str) -> None:
    done = recorded(office, "no.json", *more)
    assert done.exit_code == 1
    assert says in done.stderr
    assert not (office / "no.json").exists()


def test_a_key_is_not_written_over(office: Path) -> None:
    done = run("key", "new", str(office / "office.key"))
    assert done.exit_code == 1
    assert "a key is not written over" in done.stderr
    assert (office / "office.key").stat().st_mode & 0o077 == 0


@pytest.mark.ci("each command is a process of its own")
def test_the_page_is_a_walk_from_a_key_to_a_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(VOTERS, tmp_path)
    for step, printed in walk(steps(PAGE), "election.duckdb"):
        assert not step.printed or printed == step.printed, step.typed


# --- certificates -----------------------------------------------------------------------------------------------------


def table(counts: np.ndarray, hidden: np.ndarray) -> SuppressedTable:
    """A table of rows by columns with totals. hidden: shape as counts with totals in front."""
    whole = np.pad(counts, ((1, 0), (1, 0)))
    whole[0] = whole.sum(axis=0)
    whole[:, 0] = whole.sum(axis=1)
    named = ("row",), ("col",)
    nodes = [
        [((), ()), *((names, (at,)) for at in range(size))] for names, size in zip(named, counts.shape, strict=True)
    ]
    cells: dict[Place, int | None] = {
        (row, col): None if hidden[i, j] else int(whole[i, j])
        for (i, row), (j, col) in product(enumerate(nodes[0]), enumerate(nodes[1]))
    }
    return SuppressedTable(cells, 0, tuple((names,) for names in named))


@pytest.mark.parametrize(("call", "by"), [LINKED, TWICE])
def test_certificates_of_further_dimensions_hierarchies_and_linked_tables(call: str, by: list[str]) -> None:
    """As wide as the audit of suppress says."""
    with duckanon.connect() as con:
        con.execute(RECORDS).fetchall()
        con.execute(f"CREATE TABLE audited AS FROM suppress('records', {call}, audit := true)").fetchall()
        con.execute("CREATE TABLE made AS SELECT * EXCLUDE (status, true_value, lower, upper) FROM audited").fetchall()
        assert isinstance(con, duckanon.Connection)
        one = suppressed_table(con, "made")
        true = con.execute("SELECT true_value, upper - lower FROM audited WHERE suppressed").fetchall()
    assert one is not None
    assert len(true) == len(one.hidden) > len(by) - 1
    assert one.equations.hold([value for value, _ in true])
    assert certificate(one)["least_width"] == min(width for _, width in true)


def test_certificates_of_tables_by_codes() -> None:
    """As wide as the audit of suppress says; 3 lies higher than 011 and 012, and text keeps its zeros."""
    codes: dict[str, list[list[str | None]]] = {
        "kind": [["011", "01"], ["012", "01"], ["02", None], ["3", None], ["01", None]]
    }
    with duckanon.connect() as con:
        con.execute(
            "CREATE TABLE codes AS FROM (VALUES ('011', '01'), ('012', '01'), ('02', NULL), ('3', NULL), ('01', NULL)) "
            "v(code, parent)"
        ).fetchall()
        con.execute(
            "CREATE TABLE r AS SELECT ['011', '012', '02', '3'][1 + i % 4] AS kind, 'y' || i // 4 % 3 AS town "
            "FROM range(70) r(i) WHERE i % 12 <> 3 OR i > 60"
        ).fetchall()
        call = "suppress('r', ['town'], ['kind'], hierarchies := {'kind': 'codes'}, audit := true)"
        con.execute(f"CREATE TABLE audited AS FROM {call}").fetchall()
        con.execute("CREATE TABLE made AS SELECT * EXCLUDE (status, true_value, lower, upper) FROM audited").fetchall()
        con.execute("CREATE TABLE text AS SELECT COLUMNS(*)::VARCHAR FROM made").fetchall()
        assert isinstance(con, duckanon.Connection)
        one = suppressed_table(con, "text", codes)
        ((least, cells),) = con.execute("SELECT min(upper - lower), count(*) FROM audited WHERE suppressed").fetchall()
        con.execute("UPDATE text SET kind = '011' WHERE kind = '3'").fetchall()
        with pytest.raises(InvalidInput, match=r"on the level where its hierarchy has it|more than once"):
            suppressed_table(con, "text", codes)
    assert one is not None
    assert len(one.hidden) > cells > 3
    made = certificate(one)
    assert made["least_width"] == least
    assert check(one, made) == []


@settings(max_examples=many(60), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_certificates_are_as_wide_as_all_tables_allow(seed: int) -> None:
    random = np.random.default_rng(seed)
    counts = random.integers(0, 4, (2, 3))
    hidden = np.zeros((3, 4), dtype=bool)
    hidden[1:, 1:] = (counts > 0) & (random.random((2, 3)) < 0.7)
    hidden[2, 1] = False
    one = table(counts, hidden)
    # No part is larger than its row.
    most = [int(counts[at].sum()) for ((_, (at,)), _) in one.hidden]
    every = [np.array(inner) for inner in product(*(range(1, size + 1) for size in most)) if one.equations.hold(inner)]
    widths = (np.max(every, axis=0) - np.min(every, axis=0)).tolist()
    if 0 in widths:
        with pytest.raises(InvalidInput, match=rf"^{widths.count(0)} of the {len(widths)} suppressed cells"):
            certificate(one)
        return
    made = certificate(one)
    assert made["least_width"] == min(widths, default=None)
    assert check(one, made) == []
    if widths:
        assert check(one, {**made, "least_width": min(widths) + 1})
        assert check(one, {**made, "solutions": [[value + 1 for value in each] for each in made["solutions"]]})
        assert check(one, {**made, "largest": [9999] * len(widths)})
