"""Frames: what is read is what was meant, and any other bytes are refused without harm."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.server import wire
from duckanon.server.types import PgType


def body(*parts: bytes) -> bytes:
    return b"".join(parts)


def number(value: int) -> bytes:
    return struct.pack("!i", value)


MESSAGES = {
    "query": (b"Q", b"SELECT 1\0", wire.Query("SELECT 1")),
    "parse": (b"P", body(b"a\0", b"SELECT $1\0", b"\0\1", number(23)), wire.Parse("a", "SELECT $1", (23,))),
    "bind": (
        b"B",
        body(b"p\0", b"s\0", b"\0\1\0\1", b"\0\2", number(1), b"x", number(-1), b"\0\0"),
        wire.Bind("p", "s", (1,), (b"x", None)),
    ),
    "describe": (b"D", b"Sname\0", wire.Describe("S", "name")),
    "execute": (b"E", b"p\0" + number(5), wire.Execute("p", 5)),
    "execute for all": (b"E", b"p\0" + number(-1), wire.Execute("p", 0)),
    "close": (b"C", b"P\0", wire.Close("P", "")),
    "sync": (b"S", b"", wire.SYNC),
    "terminate": (b"X", b"", wire.TERMINATE),
}


@pytest.mark.parametrize(("kind", "content", "meant"), MESSAGES.values(), ids=MESSAGES)
def test_a_message_is_read(kind: bytes, content: bytes, meant: wire.Message) -> None:
    assert wire.message(kind, content) == meant


@pytest.mark.parametrize(("kind", "content", "meant"), MESSAGES.values(), ids=MESSAGES)
def test_a_message_that_is_cut_or_longer_is_refused(kind: bytes, content: bytes, meant: wire.Message) -> None:
    for wrong in [content[:end] for end in range(len(content))] + [content + b"\0"]:
        with pytest.raises(wire.FrameError):
            wire.message(kind, wrong)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (b"Q", b"\xff\0"),
        (b"F", b""),
        (b"\0", b""),
        (b"B", body(b"\0\0", b"\0\1\0\2", b"\0\0", b"\0\0")),
        (b"B", body(b"\0\0", b"\0\2\0\0\0\0", b"\0\1", number(-1), b"\0\0")),
        (b"B", body(b"\0\0", b"\0\0", b"\0\1", number(-2), b"\0\0")),
        (b"D", b"X\0"),
    ],
)
def test_what_makes_no_sense_is_refused(kind: bytes, content: bytes) -> None:
    with pytest.raises(wire.FrameError):
        wire.message(kind, content)


@given(st.binary(max_size=1), st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(kind: bytes, content: bytes) -> None:
    for read in (
        lambda: wire.message(kind, content),
        lambda: wire.opening(content),
        lambda: wire.sasl_initial(content),
    ):
        try:
            read()
        except wire.FrameError as error:
            assert str(error)  # noqa: PT017


@given(st.sampled_from(list(MESSAGES.values())), st.integers(0, 60), st.integers(0, 255))
def test_a_message_with_another_byte_is_one_or_refused(case: tuple, at: int, byte: int) -> None:
    kind, content, _ = case
    changed = bytearray(content)
    if changed:
        changed[at % len(changed)] = byte
    try:
        wire.message(kind, bytes(changed))
    except wire.FrameError:
        return


@given(st.binary(min_size=4, max_size=4), st.integers(4, 1 << 24))
def test_lengths_are_limited(header: bytes, longest: int) -> None:
    try:
        assert 0 <= wire.body_length(header, longest) <= longest - 4
    except wire.FrameError:
        assert not 4 <= struct.unpack("!i", header)[0] <= longest


def test_the_beginning() -> None:
    pairs = b"user\0ana\0database\0x\0\0"
    assert wire.opening(number(3 << 16) + pairs) == wire.Startup({"user": "ana", "database": "x"})
    assert wire.opening(number((3 << 16) + 2) + pairs) == wire.Startup({"user": "ana", "database": "x"}, 2)
    assert wire.opening(number(80877103)) == wire.EncryptionRequest("tls")
    assert wire.opening(number(80877102) + number(1) + number(-2)) == wire.Cancel(1, -2)
    for wrong in (number(2 << 16) + pairs, number(3 << 16) + pairs[:-1], number(3 << 16) + b"a\0b\0a\0c\0\0"):
        with pytest.raises(wire.FrameError):
            wire.opening(wrong)


def test_a_sent_text_ends_where_it_should() -> None:
    """A zero byte in a name or a message would end it early, and let the rest be read as something else."""
    assert wire.command_complete("A\0B") == b"C\0\0\0\x07AB\0"


def test_a_column_of_a_result_belongs_to_no_table() -> None:
    """Clients that are given a table's number would look for its column there."""
    column = wire.Field("n", PgType(23, "int4", 1007, 4))
    described = body(b"\0\1", b"n\0", struct.pack("!ihihih", 0, 0, 23, 4, -1, 0))
    assert wire.row_description([column]) == b"T" + number(4 + len(described)) + described
