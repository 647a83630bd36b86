"""Secondary suppression by elimination, written plainly: what the benchmark compares with.

In the manner of Langsrud 2024: cells are published one after another, the dearest to suppress first, unless a
sensitive cell could then be computed exactly. Modulo a prime; how narrow intervals become is not looked at.
"""

from __future__ import annotations

import numpy as np

from duckanon.engines.suppression.problem import Problem

_PRIME = 2**31 - 1

Row = dict[int, int]


def eliminated(one: Problem) -> np.ndarray:
    """Shape (cells,): the pattern."""
    sensitive = set(np.flatnonzero(one.primary).tolist())
    order = [int(cell) for cell in np.argsort(-one.cost, kind="stable") if one.free[cell]]
    rows = _Rows(one, [*sorted(sensitive), *reversed(order)])
    pattern = one.always.copy()
    for cell in order:
        pattern[cell] = not rows.publish(cell, sensitive)
    return pattern


class _Rows:
    """The equations among cells that are not published, each solved for a cell that stands in no other."""

    def __init__(self, one: Problem, preferred: list[int]) -> None:
        """preferred: cells that equations are solved for, rather those that come first."""
        kept = set(preferred)
        matrix = one.table.equations.tocsr()
        self._rank = {cell: at for at, cell in enumerate(preferred)}
        self._rows: list[Row] = []
        for line in range(matrix.shape[0]):
            span = slice(matrix.indptr[line], matrix.indptr[line + 1])
            entries = zip(matrix.indices[span].tolist(), matrix.data[span].tolist(), strict=True)
            self._rows.append({cell: int(sign) % _PRIME for cell, sign in entries if cell in kept})
        self._in: dict[int, set[int]] = {}
        for line, row in enumerate(self._rows):
            for cell in row:
                self._in.setdefault(cell, set()).add(line)
        self._solved: dict[int, int] = {}
        done: set[int] = set()
        for cell in preferred:
            lines = [line for line in self._in.get(cell, ()) if line not in done]
            if lines:
                line = min(lines, key=lambda line: (len(self._rows[line]), line))
                done.add(line)
                self._solve(line, cell)

    def publish(self, cell: int, sensitive: set[int]) -> bool:
        """Publish a cell, unless a sensitive one could then be computed."""
        line = self._solved.get(cell)
        if line is not None:
            others = [other for other in self._rows[line] if other != cell]
            if others:
                del self._solved[cell]
                self._solve(line, min(others, key=lambda other: self._rank[other]))
        lines = self._in.get(cell, set())
        if any(len(self._rows[one]) == 2 and sensitive & (self._rows[one].keys() - {cell}) for one in lines):
            return False
        for one in list(lines):
            del self._rows[one][cell]
        self._in.pop(cell, None)
        self._solved.pop(cell, None)
        return True

    def _solve(self, line: int, cell: int) -> None:
        """Solve an equation for a cell, and take that out of all others."""
        row = self._rows[line]
        inverse = pow(row[cell], -1, _PRIME)
        for other in row:
            row[other] = row[other] * inverse % _PRIME
        self._solved[cell] = line
        for one in list(self._in[cell]):
            if one == line:
                continue
            target = self._rows[one]
            factor = target[cell]
            for other, value in row.items():
                left = (target.get(other, 0) - factor * value) % _PRIME
                if left:
                    target[other] = left
                    self._in[other].add(one)
                else:
                    target.pop(other, None)
                    self._in[other].discard(one)
