"""The approval page: a sheet for each release, with what is known of it and fields for what only people can say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from duckanon.catalog.names import fold
from duckanon.integrations.report.assessment import Exported, Released, with_suppressed_cells
from duckanon.integrations.report.audited_tables import unseen
from duckanon.integrations.report.facts import Facts, dominance
from duckanon.integrations.report.origin import Origin
from duckanon.integrations.report.templates import templates
from duckanon.integrations.translations import gettext as _
from duckanon.integrations.translations import number, share
from duckanon.integrations.usefulness import Usefulness


@dataclass(frozen=True)
class Sheet:
    """What is said of one release. facts: pairs of what and its value; an empty value is a field to fill in.

    warnings: what must be looked at before anybody decides.
    """

    name: str
    facts: Sequence[tuple[str, str]]
    warnings: Sequence[str] = field(default_factory=list)


def sheets(facts: Facts) -> list[Sheet]:
    """A sheet for each release that was judged, in the order of the report."""
    assessment = facts.assessment
    useful = {one.table: one.figures for one in assessment.useful}
    files = {file.name: file for file in assessment.files}
    records = [_records(one, useful.get(one.table), files.get(one.table), facts) for one in assessment.released]
    for shares in assessment.shares:
        rows, small = (number(shares.figures[name]) for name in ("disclosed_rows", "disclosed_small_cells"))
        exact = _("Rows whose counts follow exactly: {rows}; small counts that do: {small}.").format(
            rows=rows, small=small
        )
        warn = [exact] if shares.figures["disclosed_rows"] or shares.figures["disclosed_small_cells"] else []
        file = files.get(shares.asked or shares.label)
        text = _("shares of {records} records").format(records=number(shares.figures["n"]))
        records.append(Sheet(shares.label, [(_("What it holds"), text), *_file(file)], [*_unseen(file), *warn]))
    records += [
        Sheet(noisy.table, [(_("What it holds"), noisy.what), *_file(files.get(noisy.table))])
        for noisy in assessment.noisy
    ]
    known = {record.name for record in records} | {shares.asked for shares in assessment.shares}
    unknown = _("It is not known what this file holds: its columns do not tell.")
    cells = (_("What it holds"), _("counts or sums, some of which are suppressed"))
    for exported in (file for file in assessment.files if file.name not in known):
        if exported.what == with_suppressed_cells():
            records.append(Sheet(exported.name, [cells, *_file(exported)], _unseen(exported)))
        elif exported.publication is not None:
            records.append(Sheet(exported.name, [(_("What it holds"), exported.what), *_file(exported)]))
        else:
            records.append(Sheet(exported.name, _file(exported), [*_unseen(exported), unknown]))
    return records


def approval(facts: Facts) -> str:
    """The page as HTML, in the language of the context."""
    return templates().get_template("approval.html").render(facts=facts, sheets=sheets(facts))


def _records(released: Released, useful: Usefulness | None, file: Exported | None, facts: Facts) -> Sheet:
    """The sheet of a k-anonymous copy."""
    figures, origin = released.figures, released.origin
    rows = [
        (_("Call"), origin.call or ""),
        (_("Made from"), origin.source or ""),
        (_("Records"), number(figures["records"])),
        (_("Records dropped"), "" if origin.dropped is None else number(origin.dropped)),
        (_("Generalised columns"), ", ".join(released.qi)),
        (_("Columns as they are"), ", ".join(released.copied.names) or _("none")),
        (_("k counts"), _counts(origin)),
        (_("k, the smallest class"), number(figures["k"])),
        (_("Alone in their class"), _alone(figures)),
        (_("Sensitive columns"), ", ".join(released.sensitive) or _("none was named")),
        (_("l, the fewest different values"), number(figures["l"]) if released.sensitive else _("not measured")),
    ]
    if useful is not None:
        moved = _("{share} of the records of {column}, the column that moved most").format(
            share=share(useful.moved[1]), column=useful.moved[0]
        )
        rows.append((_("Lies elsewhere in the distribution"), moved))
        rows.append((_("95 % of random counts are off by at most"), share(useful.most)))
    return Sheet(released.table, [*rows, *_file(file)], [*_unseen(file), *_warnings(released, facts)])


def _counts(origin: Origin) -> str:
    """What k counts: the unit in the copy, or records, and what it counted where the copy was made or published."""
    if origin.unit is not None:
        return _("value of {unit}").format(unit=origin.unit)
    if origin.publication is not None and origin.owner is not None:
        return _("record here; the unit of the policy where it was published")
    if origin.unit_of_call is not None:
        return _("record here; value of {unit} by the call").format(unit=origin.unit_of_call)
    return _("record")


def _alone(figures: dict[str, Any]) -> str:
    if figures["units"] is None:
        return number(figures["singletons"])
    pair = {"some": number(figures["units_alone"]), "all": number(figures["units"])}
    return _("{some} of {all} units").format(**pair)


def _warnings(released: Released, facts: Facts) -> list[str]:
    """What must be looked at, the gravest first."""
    k, found = released.figures["k"], []
    if k == 1:
        found.append(_("k is 1: somebody can be told from all others by the generalised columns."))
    if released.copied.units or released.copied.linking:
        columns = ", ".join([*released.copied.units, *released.copied.linking])
        found.append(_("These columns link records, so that k does not hold for whom they link: {columns}."))
        found[-1] = found[-1].format(columns=columns)
    if released.copied.near_unique:
        columns = ", ".join(released.copied.near_unique)
        text = _("Almost every record has a value of its own here: {columns}. Whoever knows it finds the record.")
        found.append(text.format(columns=columns))
    if released.origin.owner is not None and released.origin.publication is None:
        found.append(_unchecked(released.origin, released.origin.owner))
    if released.dominated is not None:
        found.append(dominance(released.dominated))
    if released.agreed:
        text = _("Classes that agree on a value give it away: {columns}.")
        found.append(text.format(columns=", ".join(released.agreed)))
    if not released.sensitive:
        found.append(_("Nobody has said which columns are sensitive, so l is not measured."))
    for group in facts.assessment.together:
        others = [name for name in group.apart if name != released.table]
        others = [group.finest, *others] if released.table in group.apart else others
        if others and released.table in [group.finest, *group.within, *group.apart]:
            text = _("Another copy of the same table: {others}. Whoever has both can intersect their classes.")
            found.append(text.format(others=", ".join(others)))
    return found


def _unchecked(origin: Origin, owner: str) -> str:
    """That k was not counted by the policy's unit for this page."""
    if fold(origin.unit_of_call or "") == fold(owner):
        text = _(
            "k counts records here. By the call it counts values of {unit}, which the copy does not hold, so this page "
            "cannot check it."
        )
    else:
        text = _(
            "k counts records. The policy's unit is {unit}, which the copy does not hold: k is not checked for it."
        )
    return text.format(unit=owner)


def _unseen(file: Exported | None) -> list[str]:
    return [unseen()] if file is not None and file.is_unseen else []


def _file(file: Exported | None) -> list[tuple[str, str]]:
    """Which file leaves: its hash, or a field for it."""
    if file is None:
        return [(_("SHA-256 of the file that leaves"), "")]
    return [
        (_("SHA-256 of the file that leaves"), file.print),
        (_("Bytes"), number(file.size)),
    ]
