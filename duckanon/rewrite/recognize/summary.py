"""Findings as text, one line each, for people and for tests."""

from __future__ import annotations

from fractions import Fraction

from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.recognize.findings import Conditional, Counts, Finding, GroupSizes, RecordReads, Unknown


def summary(found: Finding) -> str:
    """A finding in one line, for people and for tests."""
    write = Renderer(found.sources)
    told = [f"{found.kind} of {found.table}"]

    def add(what: str, said: str) -> None:
        if said:
            told.append(f"{what} {said}".strip())

    if isinstance(found, GroupSizes):
        wide = Renderer((*found.sources, *found.frame))
        add("unit", write.list(found.unit))
        add("size", write.text(found.size))
        add("by", wide.list(found.regions))
        add("kept", write.all_of(found.kept))
        add(*_sets(found, wide))
        add("", "zeros" if found.zeros else "")
    elif isinstance(found, Conditional):
        told[0] = f"conditional {found.name} of {found.table}"
        add("rows", write.list(found.rows))
        add("cols", write.list(found.cols))
        add("event", write.all_of(found.event))
        add("of", write.all_of(found.of))
        add("weight", write.text(found.weight) if found.weight is not None else "")
        add("scale", "" if Fraction(found.scale) == 1 else found.scale)
        add("digits", "" if found.digits is None else str(found.digits))
    elif isinstance(found, Counts):
        add("keys", write.list(found.keys))
        add("unit", write.text(found.unit) if found.unit is not None else "")
        add("sets", " ".join("(" + write.list(found.keys[at] for at in one) + ")" for one in found.sets))
        add(
            "events",
            "; ".join(sorted(write.all_of(event) or "all" for event in found.events)) if any(found.events) else "",
        )
        add("kept", write.all_of(found.kept))
    elif isinstance(found, RecordReads):
        add("columns", write.list(found.columns))
    elif isinstance(found, Unknown):
        add("because", found.reason)
    add("where", write.all_of(found.filter))
    return " | ".join(told)


def _sets(found: GroupSizes, write: Renderer) -> tuple[str, str]:
    """The grouping sets: levels of regions, where every set has all other keys."""
    sets = [[found.keys[at] for at in one] for one in found.sets]
    if sets == [list(found.keys)]:
        return "levels", ""
    others = set(found.keys) - set(found.regions)
    levels = all(others <= set(one) for one in sets)
    told = [[key for key in one if not levels or key in found.regions] for one in sets]
    return "levels" if levels else "sets", " ".join(f"({write.list(one)})" for one in told)
