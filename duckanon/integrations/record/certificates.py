"""Certificates of suppressed tables: whole tables that agree with what is shown, for both ends of each hidden cell.

A certificate is made from the published table alone, and treats all hidden cells alike: it does not tell which of them
are sensitive. `check` uses neither the database nor a solver.
"""

from __future__ import annotations

from typing import Any

from duckanon.engines.witnesses import witnesses
from duckanon.errors import InvalidInput
from duckanon.integrations.record.suppressed_files import SuppressedTable

# Larger certificates have more than ten million numbers.
_MOST = 2000


def certificate(table: SuppressedTable) -> dict[str, Any]:
    """The certificate, as JSON has it. Raises InvalidInput if a hidden cell can be computed, or for too many."""
    if len(table.hidden) > _MOST:
        raise InvalidInput(f"More than {_MOST:,} cells are suppressed: record parts of the table, each as a file.")
    found = witnesses(table.equations)
    made = {"solutions": found.solutions, "smallest": found.smallest, "largest": found.largest}
    widths = _widths(made)
    if 0 in widths:
        raise InvalidInput(
            f"{widths.count(0)} of the {len(widths)} suppressed cells can be computed from what is shown: suppress the "
            "table again, and give the file as it was made."
        )
    return {**made, "digits": table.digits, "least_width": min(widths, default=None)}


def check(table: SuppressedTable, arguments: dict[str, Any]) -> list[str]:
    """What is wrong with a certificate, each in a sentence; nothing if it proves what it says."""
    cells = len(table.hidden)
    solutions, ends = arguments["solutions"], (arguments["smallest"], arguments["largest"])
    if any(len(solution) != cells for solution in (*solutions, *ends)) or arguments["digits"] != table.digits:
        return ["its certificate is of another table"]
    if any(not 0 <= at < len(solutions) for end in ends for at in end):
        return ["its certificate names a solution that it does not have"]
    wrong = sum(not table.equations.hold(solution) for solution in solutions)
    if wrong:
        return [f"{wrong} of the {len(solutions)} solutions in its certificate do not add up to what it shows"]
    if min(_widths(arguments), default=None) != arguments["least_width"]:
        return ["a suppressed cell is known more narrowly than its certificate says"]
    return []


def _widths(arguments: dict[str, Any]) -> list[int]:
    solutions = arguments["solutions"]
    ends = zip(arguments["smallest"], arguments["largest"], strict=True)
    return [solutions[high][at] - solutions[low][at] for at, (low, high) in enumerate(ends)]
