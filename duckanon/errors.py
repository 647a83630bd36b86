"""duckanon's errors, one class for each kind.

An error inside a SQL function leaves DuckDB as an ``InvalidInputException``, without its class, so each text says
everything: what was wrong, in which column, and what to do. No text holds a value of the data.
"""

from typing import Any


class DuckanonError(Exception):
    """The root of every error that duckanon raises on purpose.

    about: of a statement that is refused the part that is to be quoted: its node, or its name; None if it is not known.
    """

    about: Any = None


class InvalidInput(DuckanonError, ValueError):
    """An argument, a column or a value that the function cannot work with."""


class NotRecorded(InvalidInput):
    """A charge or a decision that the ledger could not take: it is busy, or its disk is full. Nothing has changed."""


class Infeasible(DuckanonError):
    """What was asked for contradicts itself or the data: no result can satisfy it."""


class UnsupportedQuery(DuckanonError):
    """A statement whose shape cannot be proved safe."""


class PolicyRefusal(DuckanonError):
    """A statement that the policy of a protected table does not allow."""


class BudgetExhausted(DuckanonError):
    """A release that would cost more than what is left of the privacy budget."""


class MachineFailure(DuckanonError):
    """An answer that was charged and could not be made: memory, disk, or a bug. Its sentence is always the same."""


STOPPED = (
    "The call was stopped, and gives nothing. If it was charged already, the same call again is served by that charge."
)
# How errors begin that stand for Ctrl-C: in DuckDB's own code, in a Python function that it calls, and in one of ours.
_INTERRUPTED = (
    "Query interrupted",
    "Invalid Input Error: Python exception occurred while executing the UDF: KeyboardInterrupt",
    f"Invalid Input Error: {STOPPED}",
)


def was_interrupted(error: BaseException) -> bool:
    """Whether an error stands for Ctrl-C on the thread that ran the statement."""
    return str(error).startswith(_INTERRUPTED)
