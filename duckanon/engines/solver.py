"""HiGHS as the engines use it: without output, and without callbacks."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _solver() -> type[Any]:
    import highspy

    class Solver(highspy.Highs):
        """No callbacks: setting them has crashed Python with highspy 1.10 and 1.11, in threads that DuckDB started."""

        def enableCallbacks(self) -> None:  # noqa: N802 - highspy's name; its constructor calls it
            pass

    return Solver


def solver() -> Any:
    """A new, empty model of HiGHS."""
    made = _solver()()
    made.setOptionValue("output_flag", False)
    return made
