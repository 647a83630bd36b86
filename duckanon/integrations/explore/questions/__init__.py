"""What the page may ask. Each question is data: it is read from the browser's choices, and is the key of its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

from duckanon.integrations.explore.choices import Choices
from duckanon.integrations.explore.jobs import Running


class Question(Protocol):
    """A question that the page asks. lane: where it runs; equal questions have one answer."""

    lane: ClassVar[str]

    @classmethod
    def read(cls, choices: Choices) -> Self:
        """The question that the browser's choices make. Raises InvalidInput."""
        ...

    def answer(self, run: Running) -> object:
        """The answer, as values of DuckDB and Python. Raises duckdb.Error, InvalidInput or Stopped."""
        ...

    def __hash__(self) -> int: ...


def questions() -> Mapping[str, type[Any]]:
    """Every question by the name that the page uses."""
    from duckanon.integrations.explore.questions.designs import Bounds, Designs, Estimate
    from duckanon.integrations.explore.questions.generalising import Curve, Exposure, Preview
    from duckanon.integrations.explore.questions.next_tables import NextTables
    from duckanon.integrations.explore.questions.noise import Simulation
    from duckanon.integrations.explore.questions.prepared_tables import PreparedTables
    from duckanon.integrations.explore.questions.suppressed_tables import Suppressed
    from duckanon.integrations.explore.questions.tables import Profile, Tables

    return {
        "tables": Tables,
        "profile": Profile,
        "exposure": Exposure,
        "curve": Curve,
        "preview": Preview,
        "estimate": Estimate,
        "designs": Designs,
        "bounds": Bounds,
        "next": NextTables,
        "simulation": Simulation,
        "prepared": PreparedTables,
        "suppressed": Suppressed,
    }
