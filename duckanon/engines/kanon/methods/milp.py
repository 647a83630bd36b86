"""The paper's mixed-integer model (Liang and Samavi 2020, equations 21 to 35), through PuLP with HiGHS: a baseline.

Binary v[i, h] says that records i and h are equivalent; y[i, j] and z[i, j] are the ends of record i on attribute j,
with y <= x <= z, which the paper leaves out. Constraint (8), with equality, is infeasible where n (k - 1) is odd; (26)
is right. A category is a binary column, as in section 2.5, except that it counts where it occurs (y = 0): a class with
s of d values loses (s - 1) / (d - 1), as everywhere in duckanon. NULL stands at twice the range of an ordered column
and is a category of its own; a binary says where it meets values, and the whole attribute is lost.
"""

from __future__ import annotations

from itertools import combinations
from time import monotonic
from typing import Any

import numpy as np

from duckanon.engines.highs import new_highs, solve
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.kernels.box import total_loss
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.methods.exact import Solution
from duckanon.engines.kanon.records import Attribute, Records
from duckanon.errors import InvalidInput

# The model has n^2 / 2 binaries and 2 n^2 m rows.
MANY_RECORDS = 200
# Without a time limit the search tree is limited instead, so that the result is the same every time.
_NODES = 1_000


class _Model:
    """The program, while it is written down."""

    def __init__(self, n: int, k: int) -> None:
        import pulp

        self.pulp, self.n = pulp, n
        self.program = pulp.LpProblem("k_anonymity", pulp.LpMinimize)
        self.same: dict[tuple[int, int], Any] = {
            (i, h): self._variable(f"v_{i}_{h}", 0, 1, "Integer") for i, h in combinations(range(n), 2)
        }
        self.loss: list[Any] = []
        for i in range(n):  # (26)
            self.program += pulp.lpSum(v for pair, v in self.same.items() if i in pair) >= k - 1

    def _variable(self, name: str, low: float, high: float, kind: str = "Continuous") -> Any:
        if hasattr(self.program, "add_variable"):  # PuLP 3.3 and later
            return self.program.add_variable(name, low, high, cat=kind)
        return self.pulp.LpVariable(name, low, high, kind)

    def _equal(self, ends: list[Any], slack: Any) -> None:
        """(22) to (25): equivalent records have the same end. slack: how far the ends of i and h can be apart."""
        for (i, h), v in self.same.items():
            most = slack(i, h)
            self.program += ends[i] - ends[h] <= most * (1 - v)
            self.program += ends[i] - ends[h] >= -most * (1 - v)

    def ordered(self, name: str, a: Attribute) -> None:
        """An attribute on a line: (22) to (25), (29) to (32)."""
        null = bool((a.codes == a.distinct).any()) and a.distinct > 0
        top = 2.0 if null else 1.0
        x = np.append(a.positions, 2.0)[a.codes] if a.distinct else np.zeros(self.n)
        y = [self._variable(f"y_{name}_{i}", 0, float(x[i])) for i in range(self.n)]
        z = [self._variable(f"z_{name}_{i}", float(x[i]), top) for i in range(self.n)]
        self._equal(y, lambda i, h: float(max(x[i], x[h])))
        self._equal(z, lambda i, h: float(top - min(x[i], x[h])))
        for i in range(self.n):
            if not null:
                self.loss.append(a.scale * (z[i] - y[i]))
                continue
            # min(z - y, 1): a range above 1 must be one of NULL and values, which loses 1.
            loss = self._variable(f"d_{name}_{i}", 0, 1)
            mixed = self._variable(f"b_{name}_{i}", 0, 1, "Integer")
            self.program += loss >= z[i] - y[i] - mixed
            self.program += loss >= mixed
            self.loss.append(a.scale * loss)

    def hierarchy(self, name: str, a: Attribute) -> None:
        """An attribute with a hierarchy: a record loses what the ancestor it shares with any of its class does."""
        lost = [self._variable(f"d_{name}_{i}", 0, 1) for i in range(self.n)]
        leaves = np.minimum(a.codes, max(a.distinct - 1, 0))
        for (i, h), v in self.same.items():
            low, high = np.sort(leaves[[i, h]])
            apart = 1.0 if a.distinct in a.codes[[i, h]] else float(a.width(low, high))
            if a.codes[i] != a.codes[h]:
                self.program += lost[i] >= apart * v
                self.program += lost[h] >= apart * v
        self.loss += [a.weight * share for share in lost]

    def categorical(self, name: str, a: Attribute) -> None:
        """A category occurs in a class or not; equivalent records agree on that."""
        present: dict[int, list[Any]] = {}
        for code in sorted(set(a.codes.tolist())):
            x = (a.codes == code).astype(float)
            z = [self._variable(f"z_{name}_{code}_{i}", float(x[i]), 1) for i in range(self.n)]
            self._equal(z, lambda i, h, x=x: float(1 - min(x[i], x[h])))
            present[code] = z
        codes = [code for code in present if code != a.distinct]
        for i in range(self.n):
            loss = self._variable(f"d_{name}_{i}", 0, 1)
            if len(codes) > 1:
                self.program += loss >= (self.pulp.lpSum(present[c][i] for c in codes) - 1) * (1 / (a.distinct - 1))
            if a.distinct in present:
                for code in codes:
                    self.program += loss >= present[a.distinct][i] + present[code][i] - 1
            self.loss.append(a.weight * loss)

    def solve(self, seconds: float | None) -> float:
        """Run the solver as far as its limits allow; a lower bound on the optimum."""
        self.program += self.pulp.lpSum(self.loss)
        limits: dict[str, Any] = {"mip_max_nodes": _NODES} if seconds is None else {"time_limit": seconds}
        # PuLP's own solver prints HiGHS's version, and does not know how HiGHS says that a limit on nodes ended the
        # search: only what writes the program down is taken of it.
        self.solved = self.program.solverModel = new_highs(mip_rel_gap=1e-9, **limits)
        self.pulp.HiGHS().buildSolverModel(self.program)
        solve(self.solved)
        return float(self.solved.getInfo().mip_dual_bound)

    def labels(self) -> Labels:
        """Records that are equivalent, directly or by way of others (Definition 6)."""
        labels, solution = np.arange(self.n, dtype=np.int32), self.solved.getSolution()
        column_values = solution.col_value if solution.value_valid else [0.0] * self.solved.getNumCol()
        for (i, h), v in self.same.items():
            if column_values[v.index] > 0.5:
                labels[labels == labels[h]] = labels[i]
        return np.unique(labels, return_inverse=True)[1].astype(np.int32)


def milp(records: Records, k: int, start: Labels, control: Control) -> Solution:
    """Solve the paper's model, or go as far as the limit allows. It grows hard quickly: n = 14 takes a minute or two.

    records: in canonical order. start: a partition, shape (n,), from 0, returned if the solver finds nothing better.
    Raises InvalidInput above `MANY_RECORDS` records.
    """
    n, began = len(records), monotonic()
    if n > MANY_RECORDS:
        raise InvalidInput(f"Method 'milp' takes at most {MANY_RECORDS:,} rows: use 'exact' or 'refine'.")
    model = _Model(n, k)
    for j, a in enumerate(records.attributes):
        if a.weight > 0:
            (model.categorical if a.categorical else model.ordered if a.measured else model.hierarchy)(str(j), a)
    left = None if control.seconds is None else max(control.seconds - (monotonic() - began), 0.1)
    bound = model.solve(left)
    labels, loss = start, total_loss(records.space, start)
    model_labels = model.labels()
    if np.bincount(model_labels).min() >= k and (better := total_loss(records.space, model_labels)) < loss:
        labels, loss = model_labels, better
    return Solution(labels, loss, min(max(bound, 0.0) - 1e-6, loss))
