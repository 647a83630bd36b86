"""Several methods over the same records at several k: their losses, and a bound that no method can be below."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter

from duckanon.engines.kanon.anonymize import check_k, check_method, check_options, check_seconds
from duckanon.engines.kanon.bounds import box_bound
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.criteria.enforcement import Released, measured
from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria
from duckanon.engines.kanon.methods import METHODS
from duckanon.engines.kanon.methods.freeform import FREEFORM, measure
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.private_classes import private_classes
from duckanon.engines.kanon.records import Codes, Records
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
    methods: Sequence[str], ks: Sequence[int], n: int, seconds: float | None, options: Mapping[str, int], classes: bool
) -> None:
    """Raise InvalidInput for a method, an option, a time limit or a k that does not fit n records.

    classes: whether more than k is asked of classes, which freeform methods do not make.
    """
    classed = [name for name in methods if name not in FREEFORM]
    for name in classed:
        check_method(name)
    if len(classed) < len(methods) and classes:
        raise InvalidInput(
            "Freeform methods make no classes, which l, t, unit and max_suppression are about: leave them out."
        )
    if seconds is not None and classed and not any(METHODS[name].timed for name in classed):
        check_seconds(seconds, classed[0])
    check_options(options, classed)
    for k in ks:
        check_k(k, n)


def compare(records: Records, asked: Comparison) -> list[Run]:
    """A row for each k and method, in the order of the call, which `check` has checked."""
    ordered = records.take(canonical(records), asked.threads)
    found = []
    for wanted in asked.criteria:
        told = _told(asked, f"lower bound, k = {wanted.k}")
        bounds = [box_bound(ordered, wanted.k, asked.threads, told)]
        runs = []
        for name in asked.methods:
            run, proven = _run(records, asked, wanted, name)
            # (What is proven of all records does not hold where some may be left out.)
            bounds += [] if wanted.suppress else proven
            runs.append(run)
        # A method may prove a higher bound than the methods before it.
        found += [_bounded(run, max(bounds)) for run in runs]
    return found


def _told(asked: Comparison, step: str) -> Callable[[float], None]:
    return lambda share: asked.progress(step, share)


def _run(records: Records, asked: Comparison, wanted: PrivacyCriteria, name: str) -> tuple[Run, list[float]]:
    """A method's run, not bounded yet, and the losses that it proved no partition to be below."""
    method, proven, options = METHODS.get(name), list[float](), asked.options
    control = Control(
        asked.threads,
        _told(asked, f"{name}, k = {wanted.k}"),
        asked.seconds if method and method.timed else None,
        proven.append,
        {one: options[one] for one in method.options if one in options} if method else {},
    )
    started = perf_counter()
    if name in FREEFORM:
        found = Released(measure(records, wanted.k, name, asked.target, control))
    else:
        classes = private_classes(
            records,
            wanted,
            name,
            content=asked.content,
            control=control,
            sensitive=asked.sensitive,
            subjects=asked.subjects,
        )
        found = measured(records, classes, asked.sensitive, wanted, asked.target, asked.threads, asked.subjects)
    took = perf_counter() - started
    facts = asdict(found.utility) | found.told()
    return Run(method=name, k=wanted.k, seconds=took, lower_bound=0.0, gap=0.0, **facts), proven


def _bounded(run: Run, bound: float) -> Run:
    loss = run.information_loss
    return replace(run, lower_bound=bound, gap=max(0.0, 1.0 - bound / loss) if loss else 0.0)
