"""The approval page: a sheet for each release, with what is known of it and fields for what only people can say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from duckanon.integrations.report.assessment import WITH_SUPPRESSED_CELLS, Exported, Released
from duckanon.integrations.report.facts import Facts
from duckanon.integrations.report.templates import templates
from duckanon.integrations.report.translations import Catalogue
from duckanon.integrations.usefulness import Usefulness


@dataclass(frozen=True)
class Sheet:
    """What is said of one release. facts: pairs of what and its value; an empty value is a field to fill in.

    warnings: what must be looked at before anybody decides.
    """

    name: str
    facts: Sequence[tuple[str, str]]
    warnings: Sequence[str] = field(default_factory=list)


def sheets(facts: Facts, told: Catalogue) -> list[Sheet]:
    """A sheet for each release that was judged, in the order of the report."""
    found = facts.assessment
    useful = {one.table: one.figures for one in found.useful}
    files = {one.name: one for one in found.files}
    made = [_records(one, useful.get(one.table), files.get(one.table), facts, told) for one in found.released]
    _ = told.gettext
    for share in found.shares:
        rows, small = (told.number(share.figures[name]) for name in ("disclosed_rows", "disclosed_small_cells"))
        exact = _("Rows whose counts follow exactly: {rows}; small counts that do: {small}.").format(
            rows=rows, small=small
        )
        warn = [exact] if share.figures["disclosed_rows"] or share.figures["disclosed_small_cells"] else []
        what = _("shares of {records} records").format(records=told.number(share.figures["n"]))
        made.append(Sheet(share.label, [(_("What it holds"), what), *_file(files.get(share.label), told)], warn))
    made += [
        Sheet(noisy.table, [(_("What it holds"), noisy.what), *_file(files.get(noisy.table), told)])
        for noisy in found.noisy
    ]
    known = {one.name for one in made}
    unknown = _("It is not known what this file holds: its columns do not tell.")
    cells = (_("What it holds"), _("counts or sums, some of which are suppressed"))
    for file in (one for one in found.files if one.name not in known):
        if file.what == WITH_SUPPRESSED_CELLS:
            made.append(Sheet(file.name, [cells, *_file(file, told)]))
        else:
            made.append(Sheet(file.name, _file(file, told), [unknown]))
    return made


def approval(facts: Facts, told: Catalogue) -> str:
    """The page as HTML, in the language of the catalogue."""
    page = templates().get_template("approval.html")
    return page.render(_=told.gettext, language=told.language, facts=facts, sheets=sheets(facts, told))


def _records(one: Released, useful: Usefulness | None, file: Exported | None, facts: Facts, told: Catalogue) -> Sheet:
    """The sheet of a k-anonymous copy."""
    _, figures, origin = told.gettext, one.figures, one.origin
    unit = _("record") if origin.unit is None else _("value of {unit}").format(unit=origin.unit)
    rows = [
        (_("Call"), origin.call or ""),
        (_("Made from"), origin.source or ""),
        (_("Records"), told.number(figures["records"])),
        (_("Records dropped"), "" if origin.dropped is None else told.number(origin.dropped)),
        (_("Generalised columns"), ", ".join(one.qi)),
        (_("Columns as they are"), ", ".join(one.copied.names) or _("none")),
        (_("k counts"), unit),
        (_("k, the smallest class"), told.number(figures["k"])),
        (_("Alone in their class"), _alone(figures, told)),
        (_("Sensitive columns"), ", ".join(one.sensitive) or _("none was named")),
        (_("l, the fewest different values"), told.number(figures["l"]) if one.sensitive else _("not measured")),
    ]
    if useful is not None:
        moved = _("{share} of the records of {column}, the column that moved most").format(
            share=told.share(useful.moved[1]), column=useful.moved[0]
        )
        rows.append((_("Lies elsewhere in the distribution"), moved))
        rows.append((_("95 % of random counts are off by at most"), told.share(useful.most)))
    return Sheet(one.table, [*rows, *_file(file, told)], _warnings(one, facts, told))


def _alone(figures: dict[str, Any], told: Catalogue) -> str:
    if figures["units"] is None:
        return told.number(figures["singletons"])
    pair = {"some": told.number(figures["units_alone"]), "all": told.number(figures["units"])}
    return told.gettext("{some} of {all} units").format(**pair)


def _warnings(one: Released, facts: Facts, told: Catalogue) -> list[str]:
    """What must be looked at, the gravest first."""
    _, k, found = told.gettext, one.figures["k"], []
    if k == 1:
        found.append(_("k is 1: somebody can be told from all others by the generalised columns."))
    if one.copied.units or one.copied.linking:
        columns = ", ".join([*one.copied.units, *one.copied.linking])
        found.append(_("These columns link records, so that k does not hold for whom they link: {columns}."))
        found[-1] = found[-1].format(columns=columns)
    if one.copied.near_unique:
        columns = ", ".join(one.copied.near_unique)
        text = _("Almost every record has a value of its own here: {columns}. Whoever knows it finds the record.")
        found.append(text.format(columns=columns))
    if one.origin.owner is not None:
        text = _(
            "k counts records. The policy's unit is {unit}, which the copy does not hold: k is not checked for it."
        )
        found.append(text.format(unit=one.origin.owner))
    if one.agreed:
        text = _("Classes that agree on a value give it away: {columns}.")
        found.append(text.format(columns=", ".join(one.agreed)))
    if not one.sensitive:
        found.append(_("Nobody has said which columns are sensitive, so l is not measured."))
    for group in facts.assessment.together:
        others = [name for name in group.apart if name != one.table]
        others = [group.finest, *others] if one.table in group.apart else others
        if others and one.table in [group.finest, *group.within, *group.apart]:
            text = _("Another copy of the same table: {others}. Whoever has both can intersect their classes.")
            found.append(text.format(others=", ".join(others)))
    return found


def _file(file: Exported | None, told: Catalogue) -> list[tuple[str, str]]:
    """Which file leaves: its hash, or a field for it."""
    _ = told.gettext
    if file is None:
        return [(_("SHA-256 of the file that leaves"), "")]
    return [
        (_("SHA-256 of the file that leaves"), file.print),
        (_("Bytes"), told.number(file.size)),
    ]
