"""Plans as PostgreSQL's EXPLAIN shows them: text, JSON or XML, in one column.

DuckDB gives the plan of a query of open tables as JSON. For protected tables there is no plan, since it shows how many
rows are expected: the guard's decision stands in its place, as `explain_privacy` gives it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape

from duckanon.server.types import JSON, TEXT, XML, PgType

TYPES: Mapping[str, PgType] = {"text": TEXT, "json": JSON, "xml": XML}
# DuckDB's names of facts that PostgreSQL has too.
_KNOWN_AS = {"Estimated Cardinality": "Plan Rows", "Table": "Relation Name", "Filters": "Filter"}
_XML = "http://www.postgresql.org/2009/explain"


@dataclass(frozen=True)
class Plan:
    """A step of a plan. facts: what is said of it, by name. parts: the steps that it takes its rows from."""

    name: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    parts: Sequence[Plan] = ()

    def as_object(self) -> dict[str, Any]:
        """The step as PostgreSQL's JSON has it."""
        plans = {"Plans": [part.as_object() for part in self.parts]} if self.parts else {}
        return {"Node Type": self.name, **self.facts, **plans}


def plan(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Plan:
    """The plan in an answer to EXPLAIN (FORMAT JSON): DuckDB's, or the guard's decision."""
    if list(columns) == ["explain_key", "explain_value"]:
        (first,) = json.loads(rows[0][1])
        return _step(first)
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    parts = [_decided(one) for one in found]
    return parts[0] if len(parts) == 1 else Plan("Answer", {}, parts)


def _step(node: Mapping[str, Any]) -> Plan:
    told = node.get("extra_info") or {}
    facts = {_KNOWN_AS.get(name, name): value for name, value in told.items() if value not in ("", [])}
    if str(facts.get("Plan Rows", "")).isdigit():
        facts["Plan Rows"] = int(facts["Plan Rows"])
    return Plan(
        str(node["name"]).strip().replace("_", " ").title(), facts, [_step(value) for value in node["children"]]
    )


def _decided(row: Mapping[str, Any]) -> Plan:
    about = f" of {row['object']}" if row.get("object") else ""
    facts = {
        name.replace("_", " ").title().replace("Sql", "SQL"): value if isinstance(value, int | float) else str(value)
        for name, value in row.items()
        if name not in ("kind", "object") and value is not None
    }
    return Plan(f"{row['kind']}{about}".capitalize(), facts)


def written(found: Plan, form: str) -> list[str]:
    """The rows of EXPLAIN's one column: the lines of a text, or one document. form: text, json or xml."""
    if form == "json":
        return [json.dumps([{"Plan": found.as_object()}], indent=2, ensure_ascii=False)]
    if form == "xml":
        body = "\n".join(_elements(found, "    "))
        return [f'<explain xmlns="{_XML}">\n  <Query>\n{body}\n  </Query>\n</explain>']
    return list(_lines(found, 0))


def _lines(step: Plan, depth: int) -> Iterator[str]:
    before = "  " + "      " * (depth - 1) + "->  " if depth else ""
    rows = f"  (rows={step.facts['Plan Rows']})" if "Plan Rows" in step.facts else ""
    yield f"{before}{step.name}{rows}"
    for name, value in step.facts.items():
        if name != "Plan Rows":
            said = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"{'      ' * depth}  {name}: {said}"
    for part in step.parts:
        yield from _lines(part, depth + 1)


def _elements(step: Plan, indent: str) -> Iterator[str]:
    yield f"{indent}<Plan>"
    for name, value in {"Node Type": step.name, **step.facts}.items():
        tag = name.replace(" ", "-")
        if isinstance(value, list):
            items = "".join(f"<Item>{escape(str(one))}</Item>" for one in value)
            yield f"{indent}  <{tag}>{items}</{tag}>"
        else:
            yield f"{indent}  <{tag}>{escape(str(value))}</{tag}>"
    if step.parts:
        yield f"{indent}  <Plans>"
        for part in step.parts:
            yield from _elements(part, f"{indent}    ")
        yield f"{indent}  </Plans>"
    yield f"{indent}</Plan>"
