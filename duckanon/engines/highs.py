"""HiGHS, quiet and on one thread.

HiGHS keeps one pool of threads for each thread that calls it, and runs no program that asks for another number than the
pool has. So every solver of this package asks for the same.
"""

from __future__ import annotations

from typing import Any

THREADS = 1


def new_highs(**options: object) -> Any:
    """A solver without a program. options: of HiGHS, beside those that make it quiet and use one thread."""
    import highspy

    made: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in {"output_flag": False, "threads": THREADS, **options}.items():
        made.setOptionValue(option, value)
    return made
