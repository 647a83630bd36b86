"""The plugin's settings in profiles.yml."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from duckanon.errors import InvalidInput
from duckanon.integrations.dbt_meta import one_of, terms


class Mode(StrEnum):
    """What happens to a model that reads more from a protected table than a release: an error, a warning, nothing."""

    ON = "on"
    AUDIT = "audit"
    OFF = "off"


class Changes(StrEnum):
    """What happens where the policy in schema.yml differs from the ledger's: an error, or the new one is applied."""

    REFUSE = "refuse"
    APPLY = "apply"


# YAML reads `guard: on` as true.
_YAML: Mapping[object, str] = {True: "on", False: "off"}


@dataclass(frozen=True)
class Settings:
    """guard: None if it is not set. policy: default terms for every protected table."""

    guard: Mode | None = None
    changes: Changes = Changes.REFUSE
    policy: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Mapping[str, Any], beside: Collection[str] = ()) -> Settings:
        """The settings in a plugin's `config`.

        beside: keys of the profile's own `settings`, which dbt-duckdb adds to `config`. Raises InvalidInput for a
        wrong setting.
        """
        known = ("guard", "changes", "policy")
        for key in config:
            if key not in known and key not in beside:
                raise InvalidInput(f"The duckanon plugin has no setting {key!r} in profiles.yml: {one_of(known)}.")
        return cls(
            guard=_choice(Mode, "guard", config["guard"]) if config.get("guard") is not None else None,
            changes=_choice(Changes, "changes", config.get("changes", Changes.REFUSE)),
            policy=terms(config.get("policy") or {}, "The duckanon plugin's policy in profiles.yml"),
        )


def _choice(kinds: type[Any], key: str, value: object) -> Any:
    said = _YAML.get(value, value) if isinstance(value, bool) else value
    if said not in [kind.value for kind in kinds]:
        raise InvalidInput(
            f"The duckanon plugin's {key} in profiles.yml is wrong: {one_of([kind.value for kind in kinds])}."
        )
    return kinds(said)
