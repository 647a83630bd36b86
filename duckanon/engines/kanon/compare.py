"""Several methods over the same records at several k: their losses, and a bound that no method can be below."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter

import numpy as np

from duckanon.engines.kanon.anonymize import check_duration, check_method, check_options
from duckanon.engines.kanon.bounds import box_losses
from duckanon.engines.kanon.certificate.certificate import certificate
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.criteria.enforcement import Released, measured
from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.methods import METHODS
from duckanon.engines.kanon.methods.freeform import FREEFORM, measure
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.private_classes import private_classes
from duckanon.engines.kanon.records import Codes, Records, check_k
from duckanon.engines.kanon.risk import Sensitive
from duckanon.engines.kanon.ties import Hashes
from duckanon.errors import InvalidInput


@dataclass(frozen=True)
class Run:
    """A method at a k. seconds: what it took. The rest as in `Utility`, `risk.Report` and `Settled`.

    lower_bound: no release that keeps all records loses less. gap: 1 - lower_bound / information_loss, 0 if it is less.
    """

    method: str
    k: int
    classes: int
    min_class: int
    information_loss: float
    gcp: float
    discernibility: int
    lower_bound: float
    gap: float
    seconds: float
    avg_class: float
    classification: float | None
    l: int | None  # noqa: E741 - the measure's name
    t: float | None
    entropy_l: float | None
    recursive_c: float | None
    joined: int
    suppressed: int


@dataclass(frozen=True)
class Comparison:
    """What is compared, and how. criteria: one for each k; they may require more than k.

    seconds: as in `Control`, for methods that have a time limit. content: hashes of the rows, as for `anonymize`.
    target: codes that a user of the release would predict. subjects: as for `private_classes`. progress: called with
    what runs and the share done (0 to 1).
    """

    methods: Sequence[str]
    criteria: Sequence[PrivacyCriteria]
    seconds: float | None = None
    options: Mapping[str, int] = field(default_factory=dict)
    content: Hashes | None = None
    target: Codes | None = None
    sensitive: Sequence[Sensitive] = ()
    subjects: Codes | None = None
    threads: int = 1
    progress: Callable[[str, float], None] = lambda _step, _share: None


def check(
    methods: Sequence[str],
    ks: Sequence[int],
    shape: tuple[int, int],
    options: Mapping[str, int],
    *,
    classes: bool,
    seconds: float | None = None,
) -> None:
    """Raise InvalidInput for a method, an option or a k that does not fit the table, or would take many minutes.

    shape: records and quasi-identifiers. seconds: the time limit of each. classes: whether more than k is asked of
    classes, which freeform methods do not make.
    """
    classed = [name for name in methods if name not in FREEFORM]
    for name in classed:
        check_method(name)
    if len(classed) < len(methods) and classes:
        raise InvalidInput(
            "Freeform methods make no classes, which l, t, unit and max_suppression are about: leave them out."
        )
    check_options(options, classed)
    n, m = shape
    for k in ks:
        check_k(k, n)
        for name in classed:
            check_duration(name, n, m, k, seconds=seconds, options=options)


def compare(records: Records, comparison: Comparison) -> list[Run]:
    """A row for each k and method, in the order of the call, which `check` has checked."""
    order = canonical(records)
    ordered = records.take(order, comparison.threads)
    rows = []
    for criteria in comparison.criteria:
        runs, proven = [], list[float]()
        best = _Partition()
        for name in comparison.methods:
            run, labels, bounds = _run(records, comparison, criteria, name)
            # What is proven of all records does not hold where some may be left out.
            proven += [] if criteria.suppress else bounds
            if labels is not None and run.information_loss < best.loss:
                best = _Partition(run.information_loss, labels[order])
            runs.append(run)
        proven.append(_bound(ordered, comparison, criteria, best))
        # A method may prove a higher bound than the methods before it.
        rows += [bounded(run, max(proven)) for run in runs]
    return rows


@dataclass(frozen=True, eq=False)
class _Partition:
    """The best partition of the methods so far. labels: of records in canonical order, -1 for those left out."""

    loss: float = math.inf
    labels: Labels | None = None


def _bound(ordered: Records, comparison: Comparison, criteria: PrivacyCriteria, best: _Partition) -> float:
    """What no partition loses less than, by the box bound and by prices. ordered: in canonical order."""
    report = reporter(comparison, f"lower bound, k = {criteria.k}")
    box = box_losses(ordered, criteria.k, comparison.threads, lambda share: report(share / 2))
    if best.labels is None:
        return float(box.mean()) + ordered.floor
    control = Control(comparison.threads, lambda share: report(0.5 + share / 2), comparison.seconds)
    # Records that were left out may stand in any class: the prices do not depend on it, only how soon they are found.
    proof = certificate(ordered, criteria.k, box, np.maximum(best.labels, 0), control)
    allowed = proof.suppressible(ordered.floor) if criteria.suppress else proof.bound
    return max(float(box.mean()) + ordered.floor, allowed)


def reporter(comparison: Comparison, step: str) -> Callable[[float], None]:
    """What reports the progress of a step."""
    return lambda share: comparison.progress(step, share)


def _run(
    records: Records, comparison: Comparison, criteria: PrivacyCriteria, name: str
) -> tuple[Run, Labels | None, list[float]]:
    """A method's run, not bounded yet, its classes if it makes any, and bounds that it proved on all partitions."""
    method, proven, options = METHODS.get(name), list[float](), comparison.options
    control = Control(
        comparison.threads,
        reporter(comparison, f"{name}, k = {criteria.k}"),
        comparison.seconds if method and method.timed else None,
        proven.append,
        {option: options[option] for option in method.options if option in options} if method else {},
    )
    started = perf_counter()
    if name in FREEFORM:
        outcome = Released(measure(records, criteria.k, name, comparison.target, control))
        labels = None
    else:
        classes = private_classes(
            records,
            criteria,
            name,
            content=comparison.content,
            control=control,
            sensitive=comparison.sensitive,
            subjects=comparison.subjects,
        )
        outcome = measured(
            records, classes, comparison.sensitive, criteria, comparison.target, comparison.threads, comparison.subjects
        )
        labels = classes.labels
    took = perf_counter() - started
    facts = asdict(outcome.utility) | outcome.columns()
    return Run(method=name, k=criteria.k, seconds=took, lower_bound=0.0, gap=0.0, **facts), labels, proven


def bounded(run: Run, bound: float) -> Run:
    """The run with a bound on its loss, and how far it may be from the optimum."""
    loss = run.information_loss
    return replace(run, lower_bound=bound, gap=max(0.0, 1.0 - bound / loss) if loss else 0.0)
