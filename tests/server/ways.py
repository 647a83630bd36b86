"""The ways in which a client may send a statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.server.client import SYNC, Client, Reply, bind, describe, execute, frame, parse, query, text


def simple(client: Client, sql: str, _: tuple[Any, ...] = ()) -> Reply:
    return client.ask(query(sql))


def several(client: Client, sql: str, _: tuple[Any, ...] = ()) -> Reply:
    return client.ask(query(f"SELECT 1; {sql}; SELECT 2"))


def prepared(client: Client, sql: str, values: tuple[Any, ...] = ()) -> Reply:
    return client.ask(parse(sql), describe("S"), bind(*map(str, values)), execute(), SYNC)


def in_pieces(client: Client, sql: str, values: tuple[Any, ...] = ()) -> Reply:
    given = [parse(sql, "s"), bind(*map(str, values), name="s", portal="p"), describe("P", "p")]
    return client.ask(*given, execute(1, "p"), execute(2, "p"), execute(0, "p"), frame(b"C", b"S", text("s")), SYNC)


def copied(client: Client, sql: str, _: tuple[Any, ...] = ()) -> Reply:
    return client.ask(query(f"COPY ({sql}) TO STDOUT (FORMAT csv, HEADER)"))


def cursor(client: Client, sql: str, _: tuple[Any, ...] = ()) -> Reply:
    return client.ask(query(f"BEGIN; DECLARE c CURSOR FOR {sql}; FETCH 3 FROM c; FETCH ALL FROM c; COMMIT"))


def reset(client: Client) -> None:
    """No transaction, no cursor and no temporary table of the statement before."""
    client.ask(query("ROLLBACK"))
    client.ask(query("DISCARD ALL"))


WAYS: dict[str, Callable[..., Reply]] = {
    "simple": simple,
    "several": several,
    "prepared": prepared,
    "in pieces": in_pieces,
    "copied": copied,
    "cursor": cursor,
}
