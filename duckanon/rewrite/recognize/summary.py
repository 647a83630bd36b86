"""Findings as text, one line each, for people and for tests."""

from __future__ import annotations

from fractions import Fraction

from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.recognize.findings import Conditional, Counts, Finding, GroupSizes, RecordReads, Unknown


def summary(finding: Finding) -> str:
    """A finding in one line, for people and for tests."""
    write = Renderer(finding.sources)
    parts = [f"{finding.kind} of {finding.table}"]

    def add(what: str, content: str) -> None:
        if content:
            parts.append(f"{what} {content}".strip())

    if isinstance(finding, GroupSizes):
        wide = Renderer((*finding.sources, *finding.frame))
        add("unit", write.list(finding.unit))
        add("size", write.text(finding.size))
        add("by", wide.list(finding.regions))
        add("kept", write.all_of(finding.kept))
        add(*_sets(finding, wide))
        add("", "zeros" if finding.zeros else "")
    elif isinstance(finding, Conditional):
        parts[0] = f"conditional {finding.name} of {finding.table}"
        add("rows", write.list(finding.rows))
        add("cols", write.list(finding.cols))
        add("event", write.all_of(finding.event))
        add("of", write.all_of(finding.of))
        add("weight", write.text(finding.weight) if finding.weight is not None else "")
        add("scale", "" if Fraction(finding.scale) == 1 else finding.scale)
        add("digits", "" if finding.digits is None else str(finding.digits))
    elif isinstance(finding, Counts):
        add("keys", write.list(finding.keys))
        add("unit", write.text(finding.unit) if finding.unit is not None else "")
        add("sets", " ".join("(" + write.list(finding.keys[at] for at in numbers) + ")" for numbers in finding.sets))
        add(
            "events",
            "; ".join(sorted(write.all_of(event) or "all" for event in finding.events)) if any(finding.events) else "",
        )
        add("kept", write.all_of(finding.kept))
    elif isinstance(finding, RecordReads):
        add("columns", write.list(finding.columns))
    elif isinstance(finding, Unknown):
        add("because", finding.reason)
    add("where", write.all_of(finding.filter))
    return " | ".join(parts)


def _sets(group_sizes: GroupSizes, write: Renderer) -> tuple[str, str]:
    """The grouping sets: levels of regions, where every set has all other keys."""
    sets = [[group_sizes.keys[at] for at in numbers] for numbers in group_sizes.sets]
    if sets == [list(group_sizes.keys)]:
        return "levels", ""
    others = set(group_sizes.keys) - set(group_sizes.regions)
    levels = all(others <= set(expressions_of_set) for expressions_of_set in sets)
    expressions = [
        [key for key in expressions_of_set if not levels or key in group_sizes.regions] for expressions_of_set in sets
    ]
    return "levels" if levels else "sets", " ".join(f"({write.list(expression)})" for expression in expressions)
