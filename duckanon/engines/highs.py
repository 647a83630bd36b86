"""HiGHS, quiet and on one thread.

HiGHS keeps one pool of threads for each thread that calls it, and runs no program that asks for another number than the
pool has. So every solver of this package asks for the same.

The constructor of `highspy.Highs` registers callbacks, and HiGHS prints its version to standard output when that
happens. No option can be set before. Its base class has all that is needed here, and registers none.
"""

from __future__ import annotations

from typing import Any

from duckanon.cancellation import Flag, check, current

THREADS = 1


def new_highs(**options: object) -> Any:
    """A solver without a program. options: of HiGHS, beside those that make it quiet and use one thread."""
    import highspy

    made: Any = highspy._Highs()  # type: ignore[attr-defined]
    for option, value in {"output_flag": False, "threads": THREADS, **options}.items():
        made.setOptionValue(option, value)
    flag = current()
    if flag is not None:
        _stop_with(made, flag)
    return made


def solve(highs: Any) -> None:
    """Run a solver. Raises Stopped if the statement that this thread works for is to end."""
    check()
    highs.run()
    check()


def _stop_with(highs: Any, flag: Flag) -> None:
    """Let a solver look at a flag while it runs, and stop when that is set."""
    from highspy import cb

    def look(_kind: Any, _message: str, _out: Any, into: Any, _data: Any) -> None:
        if into is not None and flag.is_set:
            into.user_interrupt = True

    highs.setCallback(look, None)
    for one in ("Simplex", "Ipm", "Mip"):
        highs.startCallback(getattr(cb.HighsCallbackType, f"kCallback{one}Interrupt"))
