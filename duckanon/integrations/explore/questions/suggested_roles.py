"""The role that a column of a table seems to have, and why: what the policy says, or else its name and its values.

What nothing speaks for is left out of the release: whoever knows better says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from duckanon.catalog.types import SIGNED
from duckanon.integrations.explore.catalog import Column

# The roles that a column can have; the page has the same words.
DROPPED, QUASI, SENSITIVE, UNIT, OTHER = "dropped", "quasi", "sensitive", "unit", "other"

_IDENTIFYING = re.compile(
    r"(^|_)(id|uuid|guid|ssn|nino|e_?mail|phone|mobile|tel|iban|passport|name|first_?name|last_?name|surname|address"
    r"|vorname|nachname|telefon|adresse|anschrift|stra(ss|ß)e|steuernr|versichertennr)(_|$)"
)
_UNITS = re.compile(
    r"(^|_)(household|haushalt|hh|hhid|hid|family|familie|dwelling|wohnung|patient|customer|kunde)"
    r"(s?_?(id|nr|no|number|nummer))?(_|$)"
)
_SENSITIVE = re.compile(
    r"diagnos|disease|illness|hiv|disab|religio|income|salary|wage|vote|party|crim|drug|orientation|ethnic|union"
    r"|krank|behinder|konfession|einkommen|gehalt|lohn|partei|gewerkschaft|straf|abstimm"
)
_KNOWN = re.compile(
    r"(^|_)(age|alter|sex|gender|geschlecht|plz|zip(_?code)?|postcode|born|height|gr(oe|ö)(ss|ß)e|weight|gewicht)(_|$)"
    r"|birth|geburt|(^|_)geb(_|$)|town|city|municip|gemeinde|(^|_)ort(_|$)|county|district|kreis|region|state|land(_|$)"
    r"|nation|staatsang|educat|schul|bildung|abschluss|job|beruf|occupat|profession|marital|familienstand|race|hours"
    r"|rooms|children|kinder|language|sprache|employ|t(ae|ä)tig"
)
# A column with more distinct values than this share of its values is almost an identifier.
_NEAR_UNIQUE = 0.9
# In fewer records every column may look like an identifier.
_ENOUGH = 20
_KEYS = {*SIGNED, "UUID", "VARCHAR"} - {"TINYINT"}


@dataclass(frozen=True)
class Figures:
    """Of a table its records, of a column its NULLs and different values."""

    records: int
    nulls: int
    distinct: int

    @property
    def is_near_unique(self) -> bool:
        return self.records > _ENOUGH and self.distinct > _NEAR_UNIQUE * (self.records - self.nulls) > 0


def suggested(column: Column, figures: Figures, policy: dict[str, Any], has_unit: bool = False) -> tuple[str, str]:
    """The role, and the reason for it. policy: of the table, if it is protected. has_unit: whether a column is it."""
    name = column.name.lower()
    listed = {
        role: {one.lower() for one in policy.get(role) or ()} for role in ("quasi_identifiers", "sensitive", "drop")
    }
    if name == (policy.get("privacy_unit") or "").lower():
        return UNIT, "the policy counts by it"
    for role, meant in (("drop", DROPPED), ("quasi_identifiers", QUASI), ("sensitive", SENSITIVE)):
        if name in listed[role]:
            return meant, "as in the policy"
    if listed["quasi_identifiers"]:
        return DROPPED, "a published copy has the policy's columns only"
    if _UNITS.search(name) and not has_unit and not figures.is_near_unique and figures.distinct > 1:
        return UNIT, "by its name; several records share a value"
    return _by_name(column, name, figures)


def _by_name(column: Column, name: str, figures: Figures) -> tuple[str, str]:
    if _IDENTIFYING.search(name) or _UNITS.search(name):
        return DROPPED, "by its name it identifies"
    if figures.is_near_unique and column.type in _KEYS:
        return DROPPED, "almost every record has its own value"
    if _SENSITIVE.search(name):
        return SENSITIVE, "by its name"
    if figures.distinct <= 1:
        return OTHER, "all records have one value"
    if column.is_opaque:
        return OTHER, "its type cannot be generalised"
    if _KNOWN.search(name):
        return QUASI, "by its name others may know it"
    return DROPPED, "nothing tells what it is"
