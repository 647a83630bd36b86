"""What verify shows of a record, and what it notices: changes, other files, and JSON that could be read differently."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.record.offices import read, refused, run, signed_again


def test_what_was_signed_is_verified(office: Path) -> None:
    done = run("verify", office / "out.json", office / "hidden.csv", "--key", office / "office.pub")
    assert done.exit_code == 0, done.output
    assert "its proofs hold" in done.output


def changed(folder: Path, tmp_path: Path, change: Any) -> Path:
    for name in ("hidden.csv", "office.pub"):
        shutil.copy(folder / name, tmp_path)
    told = read(folder / "out.json")
    change(told)
    path = tmp_path / "out.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told.update(purpose="another"),
        lambda told: told["files"][0].update(sha256="0" * 64),
        lambda told: told["files"][0]["certificate"].update(least_width=50),
        lambda told: told["signature"].update(value="AAAA"),
        lambda told: told.pop("signature"),
    ],
)
def test_a_changed_record_is_refused(office: Path, tmp_path: Path, change: Any) -> None:
    done = run("verify", str(changed(office, tmp_path, change)), str(tmp_path / "hidden.csv"))
    assert done.exit_code == 1
    assert "its signature is not valid" in done.stderr


def test_other_files_and_other_keys_are_refused(office: Path, tmp_path: Path) -> None:
    record, file = str(changed(office, tmp_path, lambda _: None)), tmp_path / "hidden.csv"
    assert run("key", "new", str(tmp_path / "other.key")).exit_code == 0
    done = run("verify", record, str(file), "--key", str(tmp_path / "other.pub"))
    assert (done.exit_code, "signed with another key" in done.stderr) == (1, True)
    done = run("verify", record, str(file), str(office / "other.csv"))
    assert (done.exit_code, "other.csv is not in the record" in done.stderr) == (1, True)
    content = file.read_bytes()
    for at in (0, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        done = run("verify", record, str(file))
        assert (done.exit_code, "its SHA-256 is another" in done.stderr) == (1, True)


def _last(told: dict[str, Any]) -> int:
    """The last character of the key, whose two lowest bits encode nothing."""
    return ord(told["signature"]["key"][-2])


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told["signature"].update(note="approved by the board"),
        lambda told: told["signature"].update(algorithm="none"),
        lambda told: told["signature"].pop("algorithm"),
        # Another text that encodes the same bytes.
        lambda told: told["signature"].update(key=told["signature"]["key"][:-2] + chr(_last(told) + 1) + "="),
        lambda told: told.update(signature=[]),
    ],
)
def test_a_signature_has_nothing_beside_it(office: Path, tmp_path: Path, change: Any) -> None:
    """None of this is signed."""
    refused(run("verify", changed(office, tmp_path, change), tmp_path / "hidden.csv"), "its signature is not valid")


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told.update(note="approved by the board"),
        lambda told: told.pop("purpose"),
        lambda told: told.pop("files"),
        lambda told: told.update(files={}),
        lambda told: told.update(files=[1]),
        lambda told: told.update(files=told["files"] * 2),
        lambda told: told["files"][0].pop("name"),
        lambda told: told["files"][0].update(more=1),
        lambda told: told["files"][0].update(publication="hidden"),
        lambda told: told["files"][0]["certificate"].update(solutions=[["1"]]),
        lambda told: told["files"][0]["certificate"].update(least_width=True),
        lambda told: told["audits"][0].update(publications="hidden"),
    ],
)
def test_a_record_has_all_its_parts_and_no_others(office: Path, tmp_path: Path, change: Any) -> None:
    """Whoever has a key can sign anything."""
    refused(
        run("verify", signed_again(office, tmp_path, change), office / "hidden.csv"), "is no record as this version"
    )


def test_what_no_audit_covers_is_told(office: Path, tmp_path: Path) -> None:
    record = signed_again(office, tmp_path, lambda told: told["files"][0].update(publication=None))
    refused(run("verify", record, office / "hidden.csv"), "hidden.csv is no publication: no audit covers it.")


def test_certificates_belong_to_files_with_suppressed_cells(office: Path, tmp_path: Path) -> None:
    record = signed_again(office, tmp_path, lambda told: told["files"][0].update(certificate=None))
    refused(run("verify", record, office / "hidden.csv"), "has suppressed cells, and no certificate of them")


@pytest.mark.parametrize("name", ["purpose", "sha256", "value"])
def test_a_name_that_stands_twice_is_refused(office: Path, tmp_path: Path, name: str) -> None:
    """The last value is the signed one; a person reads the first."""
    text = (office / "out.json").read_text(encoding="utf-8")
    record = tmp_path / "out.json"
    record.write_text(re.sub(f'"{name}":', f'"{name}": "another", "{name}":', text, count=1), encoding="utf-8")
    assert json.loads(record.read_text(encoding="utf-8")) == read(office / "out.json")
    refused(run("verify", record, office / "hidden.csv"), f'is no record: it names "{name}" twice')


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 200_000,
        b'{"record":' * 200_000,
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"record": "duckanon record", "n": NaN}',
        b'{"record": "duckanon record", "n": ' + b"1" * 10_000 + b"}",
    ],
)
def test_what_is_no_record(office: Path, tmp_path: Path, text: bytes) -> None:
    record = tmp_path / "out.json"
    record.write_bytes(text)
    refused(run("verify", record, office / "hidden.csv"), "is no record: give the .json")


def test_deep_rules_end_in_a_sentence(office: Path, tmp_path: Path) -> None:
    told = read(office / "out.json")
    text = json.dumps({**told, "rules": "HERE"}).replace('"HERE"', "[" + '{"a":' * 900 + "1" + "}" * 900 + "]")
    record = tmp_path / "out.json"
    record.write_text(text, encoding="utf-8")
    refused(run("verify", record, office / "hidden.csv"), "out.json")


def test_each_missing_file_has_its_sentence(office: Path, tmp_path: Path) -> None:
    record, file = office / "out.json", office / "hidden.csv"
    refused(run("verify", tmp_path / "out.json", file), "There is no file", "give the .json that")
    refused(
        run("verify", record, file, "--key", tmp_path / "office.pub"), "There is no file", "name the file of the key"
    )
    refused(run("verify", record, tmp_path / "hidden.csv"), f"There is no file {tmp_path / 'hidden.csv'}.")
    refused(run("verify", record, file, tmp_path / "x.csv"), f"There is no file {tmp_path / 'x.csv'}.")


def test_each_file_is_named_once(office: Path, tmp_path: Path) -> None:
    record, file = office / "out.json", office / "hidden.csv"
    refused(run("verify", record, file, file), "hidden.csv is given twice: name each file once.")
    shutil.copy(file, tmp_path)
    refused(run("verify", record, file, tmp_path / "hidden.csv"), "have the same name, by which a record tells files")


def test_the_internal_part_is_checked_beside_the_public_one(office: Path, tmp_path: Path) -> None:
    record, file, internal = office / "out.json", office / "hidden.csv", office / "out.internal.json"
    refused(run("verify", internal, file), "is the internal part of a record", "this one among the files")
    done = run("verify", record, file, internal)
    assert done.exit_code == 0, done.output
    assert "its 1 file and its internal part are as they were signed" in done.output
    other = tmp_path / "out.internal.json"
    other.write_text(
        internal.read_text(encoding="utf-8").replace("secondary_cells", "tertiary_cells"), encoding="utf-8"
    )
    refused(run("verify", record, file, other), "is not the internal part that was signed with")


def test_verify_shows_what_the_record_says(office: Path, tmp_path: Path) -> None:
    told = read(office / "out.json")
    done = run("verify", office / "out.json", office / "hidden.csv")
    for line in (
        f"Made at {told['made_at']}, by the office's clock.",
        "Purpose: yearbook",
        "Recipient: press",
        "Decided by: A. Officer",
        "hidden.csv: publication hidden (suppressed) of main.people",
        "Audit of main.people, with hidden: safe",
    ):
        assert line in done.stdout.splitlines()


def test_what_the_record_says_does_not_move_the_cursor(office: Path, tmp_path: Path) -> None:
    record = signed_again(office, tmp_path, lambda told: told.update(purpose="a\x1b[2J\nDecided by: B"))
    done = run("verify", record, office / "hidden.csv")
    assert done.exit_code == 0, done.output
    assert r"Purpose: a\x1b[2J\nDecided by: B" in done.stdout.splitlines()
