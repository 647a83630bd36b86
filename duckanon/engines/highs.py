"""HiGHS, quiet and on one thread.

HiGHS keeps one pool of threads for each thread that calls it, and runs no program that asks for another number than the
pool has. So every solver of this package asks for the same.

The constructor of `highspy.Highs` registers callbacks, and HiGHS prints its version to standard output when that
happens. No option can be set before. Its base class has all that is needed here, and registers none.
"""

from __future__ import annotations

from typing import Any

THREADS = 1


def new_highs(**options: object) -> Any:
    """A solver without a program. options: of HiGHS, beside those that make it quiet and use one thread."""
    import highspy

    made: Any = highspy._Highs()  # type: ignore[attr-defined]
    for option, value in {"output_flag": False, "threads": THREADS, **options}.items():
        made.setOptionValue(option, value)
    return made
