"""The forms of a record's two parts in JSON. They are read strictly: what people see is what programs check."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Never

from duckanon.errors import InvalidInput

PUBLIC = "duckanon record"
INTERNAL = "duckanon record, internal part"
# What a record says of a publication.
PUBLICATION = ("name", "of", "kind", "variables", "given", "digits", "base", "perturbation", "width", "content_hash")

# Whether a value of JSON has a form.
Form = Callable[[Any], bool]


class _Repeated(ValueError):
    """A name stands twice in an object: most programs read the second value, and people the first."""


def public_part(path: Path) -> dict[str, Any]:
    """The public part in a file, with its signature, which is not checked. Raises InvalidInput."""
    if not path.is_file():
        raise InvalidInput(f"There is no file {path}: give the .json that duckanon report --record wrote.")
    try:
        told = _read(path)
    except _Repeated as error:
        raise InvalidInput(
            f"{path} is no record: it names {error} twice in one place, and people and programs could read different "
            "values."
        ) from None
    except (ValueError, RecursionError):
        told = None
    if isinstance(told, dict) and told.get("record") == INTERNAL:
        raise InvalidInput(
            f"{path} is the internal part of a record, which stays in the office: give the public part in its place, "
            "and this one among the files to have it checked too."
        )
    if not isinstance(told, dict) or told.get("record") != PUBLIC:
        raise InvalidInput(f"{path} is no record: give the .json that duckanon report --record wrote.")
    if not _PUBLIC({name: value for name, value in told.items() if name != "signature"}):
        raise InvalidInput(
            f"{path} is no record as this version of duckanon writes it: it has other parts, or lacks some."
        )
    return told


def internal_part(path: Path) -> dict[str, Any] | None:
    """The internal part in a file, with its signature, which is not checked; None if the file holds none."""
    try:
        told = _read(path) if path.suffix.lower() == ".json" else None
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) and told.get("record") == INTERNAL else None


def _read(path: Path) -> Any:
    """Raises ValueError for a file that is not strictly JSON in UTF-8, RecursionError for one that is nested deeply."""
    return json.loads(path.read_bytes().decode(), object_pairs_hook=_once, parse_constant=_no_number)


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _Repeated(f'"{name}"')
        found[name] = value
    return found


def _no_number(name: str) -> Never:
    raise ValueError(name)


# --- forms ------------------------------------------------------------------------------------------------------------


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _whole(value: Any) -> bool:
    return type(value) is int


def _boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _anything(_: Any) -> bool:
    return True


def _optional(form: Form) -> Form:
    return lambda value: value is None or form(value)


def _every(form: Form) -> Form:
    return lambda value: isinstance(value, list) and all(map(form, value))


def _exactly(**forms: Form) -> Form:
    """An object with these names and no others."""
    return lambda value: (
        isinstance(value, dict)
        and value.keys() == forms.keys()
        and all(form(value[name]) for name, form in forms.items())
    )


def _told_apart(value: Any) -> bool:
    """Whether files have different names."""
    return len({one["name"] for one in value}) == len(value)


_CERTIFICATE = _exactly(
    solutions=_every(_every(_whole)),
    smallest=_every(_whole),
    largest=_every(_whole),
    digits=_whole,
    least_width=_optional(_whole),
)


def _codes(value: Any) -> bool:
    """By column, each code and what it is a part of."""
    line = _every(_optional(_text))
    return _object(value) and all(
        _every(line)(lines) and all(len(line) == 2 for line in lines) for lines in value.values()
    )


_FILE = _exactly(
    name=_text,
    sha256=_text,
    size=_whole,
    publication=_optional(
        _exactly(**dict.fromkeys(PUBLICATION, _anything) | dict.fromkeys(("name", "of", "kind"), _text))
    ),
    codes=_codes,
    certificate=_optional(_CERTIFICATE),
)
_AUDIT = _exactly(table=_text, publications=_every(_text), verdict=_text, changed_records_accepted=_boolean)
_PUBLIC = _exactly(
    record=_text,
    duckanon=_text,
    made_at=_text,
    purpose=_text,
    recipient=_text,
    decided_by=_text,
    files=lambda value: _every(_FILE)(value) and _told_apart(value),
    rules=_every(_object),
    audits=_every(_AUDIT),
    internal_part_sha256=_text,
)
