"""A database's policies as a TOML file: what a steward keeps in version control.

    [populations.residents]
    epsilon = 4

    [tables."main.persons"]
    population = "residents"
    privacy_unit = "person"
    domains.state = ["GA", "NY"]

    [open]
    tables = ["main.counties"]

    [users.ana]
    role = "analyst"
    allotments.residents = 2

What stands under a table are arguments of `protect`. Numbers are read exactly as they are written.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from duckanon.accounting import epsilon, rational, written
from duckanon.catalog.domain_sources import DomainSource, Range, WithNull
from duckanon.catalog.names import fold, literal, parts, parts_of_column, spelled
from duckanon.catalog.openings import ALL_TABLES
from duckanon.catalog.policy import AS_THEY_ARE, LISTS, Policy
from duckanon.errors import InvalidInput
from duckanon.governance.ledger_state import LedgerState
from duckanon.governance.locations import Identity
from duckanon.renyi import digits
from duckanon.specification import functions

# Arguments of protect that belong to the population.
_OF_POPULATION = ("epsilon", "delta")
_ROLES = ("analyst", "steward")
_PLACES = ("populations", "tables", "open", "users")


@dataclass(frozen=True)
class FileUser:
    """A user as the file has it. allotments: by population what the user may spend of its budget in all."""

    role: str
    allotments: Mapping[str, Fraction] = field(default_factory=dict)


@dataclass(frozen=True)
class PolicyFile:
    """What a file says. populations: by name the arguments `epsilon` and `delta`. tables: by name, as it is written in
    SQL, all other arguments of `protect`. opened: names as `open_table` takes them. users: by name.
    """

    populations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    opened: tuple[str, ...] = ()
    users: Mapping[str, FileUser] = field(default_factory=dict)

    @property
    def ordered(self) -> list[str]:
        """The tables, each after those to which it links. Links in a circle come as they are written."""
        rest, texts = dict(self.tables), list[str]()
        while rest:
            left = set(map(identity, rest))
            ready = [name for name in rest if not self._parents(name) & (left - {identity(name)})] or list(rest)
            texts += ready
            for name in ready:
                del rest[name]
        return texts

    @property
    def calls(self) -> list[str]:
        """The file as statements of SQL, for a server. What is no policy, such as passwords, is not among them."""
        opening = [f"SELECT open_table({literal(one)})" for one in self.opened]
        protecting = [_call("protect", self.protects(text)) for text in self.ordered]
        allotting = [
            _call("allot", {"who": name, "population": of, "epsilon": amount})
            for name, user in self.users.items()
            for of, amount in user.allotments.items()
        ]
        return [f"{one};" for one in (*opening, *protecting, *allotting)]

    def _parents(self, table: str) -> set[Identity]:
        """The tables to which a table's link may lead: without a schema those of the table's own, or of main."""
        link = self.tables[table].get("link", {})
        columns = link.values() if isinstance(link, dict) else ()
        named = [parts_of_column(column)[:-1] for column in columns if isinstance(column, str)]
        own, _ = identity(table)
        beside = {(own, fold(names[0])) for names in named if len(names) == 1}
        return beside | {identity(spelled(names)) for names in named if names}

    def protects(self, table: str) -> dict[str, Any]:
        """The arguments of `protect` for a table."""
        said = self.tables[table]
        return {"tbl": table, **said, **self.populations[said["population"]]}


def identity(name: str) -> Identity:
    """A table, or all tables of a schema, by its name in a file."""
    if name.endswith(".*"):
        return fold(parts(name.removesuffix(".*"))[-1]), ALL_TABLES
    schema, table = ["main", *parts(name)][-2:]
    return fold(schema), fold(table)


def _call(function: str, arguments: Mapping[str, Any]) -> str:
    """A call in SQL: required arguments by their place, the others by name."""
    required = {argument.name for argument in functions()[function].arguments if argument.required}
    said = [
        _in_sql(one) if name in required else f"{name} := {_in_sql(one)}"
        for name, one in sorted(arguments.items(), key=lambda each: each[0] not in required)
    ]
    return f"SELECT {function}({', '.join(said)})"


def _in_sql(one: Any) -> str:
    """A value of a file as SQL writes it."""
    if one is None or isinstance(one, bool):
        return "NULL" if one is None else str(one).lower()
    if isinstance(one, str | Fraction):
        return literal(one if isinstance(one, str) else written(one))
    if isinstance(one, Mapping):
        return f"{{{', '.join(f'{literal(name)}: {_in_sql(each)}' for name, each in one.items())}}}"
    if isinstance(one, list | tuple):
        return f"[{', '.join(map(_in_sql, one))}]"
    if isinstance(one, datetime):
        return f"TIMESTAMP {literal(str(one))}"
    return f"DATE {literal(str(one))}" if isinstance(one, date) else str(one)


def read(text: str) -> PolicyFile:
    """The file that a text is. Raises InvalidInput, with one sentence for the first mistake."""
    try:
        whole = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"The file is no TOML: {str(error)[:1].lower()}{str(error)[1:]}.") from None
    _known(whole, _PLACES, "The file")
    populations = {name: _population(name, table) for name, table in _tables(whole, "populations").items()}
    tables = {name: _table(name, table, populations) for name, table in _tables(whole, "tables").items()}
    opened = _tables(whole, "open")
    _known(opened, ("tables",), "[open]")
    names = opened.get("tables", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidInput('[open] lists names: tables = ["main.counties"].')
    users = {name: _user(name, table, populations) for name, table in _tables(whole, "users").items()}
    return PolicyFile(populations, tables, tuple(names), users)


def _tables(whole: Mapping[str, Any], place: str) -> dict[str, Any]:
    found = whole.get(place, {})
    if not isinstance(found, dict):
        raise InvalidInput(f"[{place}] must be a table of TOML: look at the example on the page of policy files.")
    return found


def _known(said: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    for name in said:
        if name not in known:
            raise InvalidInput(f"{where} says {name}, which means nothing here: it may say {', '.join(known)}.")


def _population(name: str, said: Any) -> dict[str, Any]:
    where = f"[populations.{key(name)}]"
    if not isinstance(said, dict) or "epsilon" not in said:
        raise InvalidInput(f"{where} must say the budget of the population in all: epsilon = 4.")
    _known(said, _OF_POPULATION, where)
    return dict(said)


def _table(name: str, said: Any, populations: Mapping[str, Any]) -> dict[str, Any]:
    where = f"[tables.{key(name)}]"
    if not isinstance(said, dict):
        raise InvalidInput(f'{where} must say a policy, at least population = "...".')
    _known(
        said,
        [argument.name for argument in functions()["protect"].arguments[1:] if argument.name not in _OF_POPULATION],
        where,
    )
    if said.get("population") not in populations:
        raise InvalidInput(f'{where} must name a population of the file, as in population = "residents".')
    domains = {column: _with_null(one) for column, one in _mapping(said, "domains", where).items()}
    return {**said, **({"domains": domains} if domains else {})}


def _mapping(said: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    found = said.get(name, {})
    if not isinstance(found, dict):
        raise InvalidInput(f"{where} must say {name} by column, as in {name}.state = [...].")
    return found


def _with_null(said: Any) -> Any:
    """A list with NULL, which TOML does not have: {values = [...], nulls = true}."""
    if isinstance(said, dict) and isinstance(said.get("values"), list) and said.get("nulls") is True:
        return [*said["values"], None]
    return said


def _user(name: str, said: Any, populations: Mapping[str, Any]) -> FileUser:
    where = f"[users.{key(name)}]"
    if not isinstance(said, dict) or said.get("role") not in _ROLES:
        raise InvalidInput(f'{where} must say a role: role = "analyst", or "steward".')
    _known(said, ("role", "allotments"), where)
    allotments = {of: epsilon(one, "An allotment") for of, one in _mapping(said, "allotments", where).items()}
    for of in allotments:
        if of not in populations:
            raise InvalidInput(f"{where} has an allotment of {of}, and the file names no such population.")
    return FileUser(said["role"], allotments)


def of_state(state: LedgerState, roles: Mapping[str, str]) -> PolicyFile:
    """The file that says what stands. roles: of all users, by name; users with an allotment alone are analysts."""
    standing = sorted(state.tables.values(), key=lambda table: table.location.label)
    used = dict.fromkeys(policy.policy.population for policy in standing)
    populations = {}
    for name in used:
        policy = next(policy.policy for policy in standing if policy.policy.population == name)
        said = {"epsilon": _exact(policy.epsilon)}
        populations[name] = said | ({} if policy.delta is None else {"delta": Decimal(digits(policy.delta))})
    allotted: dict[str, dict[str, Fraction]] = {name: {} for name in roles}
    for (user, population), amount in state.allotments.items():
        if population in used:
            allotted.setdefault(user, {})[population] = amount
    return PolicyFile(
        populations,
        {spelled([policy.location.schema or "", policy.location.name]): _said(policy.policy) for policy in standing},
        tuple(
            spelled([schema or ""]) + ".*" if name == ALL_TABLES else spelled([schema or "", name])
            for schema, name in sorted(state.opened, key=str)
        ),
        {name: FileUser(roles.get(name, "analyst"), amounts) for name, amounts in sorted(allotted.items())},
    )


def _said(policy: Policy) -> dict[str, Any]:
    """The arguments of `protect` that make a policy, without the population's own and what is as usual."""
    found: dict[str, Any] = {"population": policy.population}
    if policy.is_linked:
        found["link"] = dict(policy.link)
    elif policy.privacy_unit is not None:
        found["privacy_unit"] = policy.privacy_unit
    usual = Policy(policy.epsilon)
    for name in AS_THEY_ARE:
        value = getattr(policy, name)
        if value != getattr(usual, name):
            found[name] = list(value) if name in LISTS else value
    for name in ("per_query", "per_edition"):
        if getattr(policy, name) is not None:
            found[name] = _exact(getattr(policy, name))
    if policy.domains:
        found["domains"] = {column: _domain(domain) for column, domain in policy.domains.items()}
    if policy.bounds:
        found["bounds"] = {column: list(map(_end, bound)) for column, bound in policy.bounds.items()}
    return found


def _exact(amount: Fraction) -> Any:
    """An amount as TOML holds it exactly: a number, or a text such as "1/3"."""
    text = written(amount)
    return text if "/" in text else Decimal(text)


def _end(end: str) -> Any:
    """An end of bounds, which is a number or a time."""
    number = rational(end)
    return end if number is None or "/" in end else Decimal(end)


def _domain(source: DomainSource) -> Any:
    if isinstance(source, WithNull):
        return {"values": source.name, "nulls": True}
    if isinstance(source, Range):
        said = {"from": source.first, "to": source.last, "step": source.step}
        return {**said, "nulls": True} if source.nulls else said
    return list(source) if isinstance(source, tuple) else source


# Writing.


def write(file: PolicyFile, heading: str = "") -> str:
    """The file as TOML. heading: a comment on its first lines."""
    lines = [f"# {line}" for line in heading.splitlines()]
    for name, said in file.populations.items():
        lines += ["", f"[populations.{key(name)}]", *_pairs(said)]
    for name, said in file.tables.items():
        lines += ["", f"[tables.{key(name)}]", *_pairs(said)]
    if file.opened:
        lines += ["", "[open]", f"tables = {value(list(file.opened))}"]
    for name, user in file.users.items():
        lines += ["", f"[users.{key(name)}]", f"role = {value(user.role)}"]
        lines += [f"allotments.{key(of)} = {value(_exact(amount))}" for of, amount in user.allotments.items()]
    return "\n".join(lines).lstrip("\n") + "\n"


def _pairs(said: Mapping[str, Any]) -> Iterable[str]:
    for name, one in said.items():
        if name in ("domains", "bounds", "link"):
            yield from (f"{name}.{key(column)} = {value(each)}" for column, each in one.items())
        else:
            yield f"{name} = {value(one)}"


def key(name: str) -> str:
    """A name as a key of TOML, in quotes where it must be."""
    return name if name and all(text.isascii() and (text.isalnum() or text in "_-") for text in name) else _text(name)


def value(one: Any) -> str:
    """A value as TOML writes it. NULL in a list is written beside it."""
    if isinstance(one, bool):
        return "true" if one else "false"
    if isinstance(one, str):
        return _text(one)
    if isinstance(one, Mapping):
        return f"{{ {', '.join(f'{key(name)} = {value(each)}' for name, each in one.items())} }}"
    if isinstance(one, list):
        listed = f"[{', '.join(value(each) for each in one if each is not None)}]"
        return f"{{ values = {listed}, nulls = true }}" if None in one else listed
    return one.isoformat() if isinstance(one, date) else str(one)


def _text(text: str) -> str:
    """A basic string: JSON's, but for a character that TOML does not take as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
