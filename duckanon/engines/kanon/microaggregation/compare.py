"""Microaggregation over the same records at several k: sums of squares, and a bound that no classes can be below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from time import perf_counter

from duckanon.engines.kanon.compare import Comparison, Run, bounded, reporter
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.criteria.enforcement import Settled, measured
from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria
from duckanon.engines.kanon.microaggregation.certificate import Proven, prove
from duckanon.engines.kanon.microaggregation.embedding import embedded, total_squares
from duckanon.engines.kanon.microaggregation.microaggregate import MANY_RECORDS, check_method, minimised
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.records import Records, check_k


def check(methods: Sequence[str], ks: Sequence[int], n: int) -> None:
    """Raise InvalidInput for a method or a k that does not fit n records."""
    for name in methods:
        check_method(name, n)
    for k in ks:
        check_k(k, n)


def compare_squares(records: Records, comparison: Comparison) -> list[Run]:
    """A row for each k and method, in the order of the call, which `check` has checked.

    `information_loss` is the sum of squares within classes as a share of that of all records, and `lower_bound` bounds
    it. Above as many records as `exact` takes, the bound is 0.
    """
    order = canonical(records)
    ordered = records.take(order, comparison.threads)
    whole = total_squares(embedded(ordered))
    rows = []
    for criteria in comparison.criteria:
        runs, proven = [], list[Proven]()
        for name in comparison.methods:
            run, classes = _run(ordered, comparison, criteria, name, whole)
            runs.append(run)
            proven.append(classes)
        bound = max(candidate.bound for candidate in proven)
        if "exact" not in comparison.methods and len(records) <= MANY_RECORDS:
            best = min(proven, key=lambda candidate: candidate.sum)
            control = Control(
                comparison.threads, reporter(comparison, f"lower bound, k = {criteria.k}"), comparison.seconds
            )
            bound = prove(embedded(ordered), criteria.k, best.labels, control).bound
        share = bound / whole if whole else 0.0
        rows += [bounded(run, min(share, min(run.information_loss for run in runs))) for run in runs]
    return rows


def _run(
    ordered: Records, comparison: Comparison, criteria: PrivacyCriteria, name: str, whole: float
) -> tuple[Run, Proven]:
    """A method's run, not bounded yet, and its classes. whole: the sum of squares of all records."""
    target = comparison.target
    control = Control(comparison.threads, reporter(comparison, f"{name}, k = {criteria.k}"), comparison.seconds)
    started = perf_counter()
    classes = minimised(ordered, criteria.k, name, control)
    took = perf_counter() - started
    released = measured(ordered, Settled(classes.labels, 0, 0), [], criteria, target, comparison.threads)
    facts = asdict(released.utility) | released.columns()
    run = Run(method=name, k=criteria.k, seconds=took, lower_bound=0.0, gap=0.0, **facts)
    return replace(run, information_loss=classes.sum / whole if whole else 0.0), classes
