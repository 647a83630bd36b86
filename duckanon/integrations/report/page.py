"""The page: facts as HTML. The template engine escapes every text, and the page loads nothing from the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from duckanon.integrations.report.assessment import Released
from duckanon.integrations.report.facts import Facts
from duckanon.integrations.report.templates import templates
from duckanon.integrations.report.words import left, neighbours, promised, protected
from duckanon.integrations.results import SHARES
from duckanon.integrations.translations import counted, number, share
from duckanon.integrations.translations import gettext as _

# The page shows the last lines of the ledger; privacy_ledger() returns all of them.
_MOST_LINES = 200


def page(facts: Facts, record: Mapping[str, Any] | None = None) -> str:
    """The HTML page. record: of the files that leave, if there is one."""
    environment = templates()
    environment.filters["figure"] = _figure
    pictures = [
        (caption, picture.says, Markup(picture.inline(f"picture{i}-")))  # noqa: S704 - matplotlib escapes its texts
        for i, (caption, picture) in enumerate(facts.assessment.pictures, 1)
    ]
    return environment.get_template("page.html").render(
        facts=facts,
        points=facts.points,
        pictures=pictures,
        releases=_releases(facts),
        lines=list(reversed(facts.ledger))[:_MOST_LINES],
        risk=_risk(),
        record=record,
        **_told(),
    )


def _told() -> dict[str, Any]:
    """What the page says in its language with what the database has."""
    return {
        "actions": _actions(),
        "kinds": _kinds(),
        "verdicts": _verdicts(),
        "counted": counted,
        "left": left,
        "neighbours": neighbours,
        "promised": promised,
        "protected": protected,
        "publication": _publication,
        "released": _released,
    }


def _releases(facts: Facts) -> list[tuple[str, str]]:
    """Every release that was judged, by name, with what it is in words."""
    assessment = facts.assessment
    copies = [
        (
            one.table,
            _("{records} records, k-anonymous by {columns}: k = {k}").format(
                records=number(one.figures["records"]), columns=", ".join(one.qi), k=number(one.figures["k"])
            ),
        )
        for one in assessment.released
    ]
    shares = [
        (one.label, _("shares of {records} records").format(records=number(one.figures["n"])))
        for one in assessment.shares
    ]
    return [*copies, *shares, *((one.table, one.what) for one in assessment.noisy)]


def _risk() -> dict[str, str]:
    """The columns of k_report that are shown, with their titles."""
    return {
        "records": _("records"),
        "classes": _("classes"),
        "k": "k",
        "singletons": _("alone"),
        "max_risk": _("highest risk"),
        "avg_risk": _("average risk"),
        "l": "l",
        "t": "t",
    }


def _figure(value: Any, name: str) -> str:
    """A figure of k_report or k_utility: shares in per cent."""
    if value is None:
        return "-"
    if name in SHARES:
        return share(value)
    return number(value) if isinstance(value, int) else number(value, ".3g")


def _actions() -> dict[str, str]:
    """What the lines of the ledger do."""
    return {
        "charge": _("charge"),
        "perturb": _("perturb"),
        "protect": _("protect"),
        "unprotect": _("unprotect"),
        "open": _("open"),
        "close": _("close"),
        "publish": _("publish"),
        "unpublish": _("unpublish"),
        "edition": _("edition"),
        "allot": _("allot"),
    }


def _kinds() -> dict[str, str]:
    """The kinds of publications."""
    return {
        "records": _("records"),
        "counts": _("counts"),
        "shares": _("shares"),
        "suppressed": _("suppressed"),
        "perturbed": _("perturbed"),
    }


def _verdicts() -> dict[str, str]:
    """What an audit of all publications of a table may say."""
    return {
        "safe": _("safe"),
        "not proven safe": _("not proven safe"),
        "not audited": _("not audited"),
        "no numbers to audit": _("no numbers to audit"),
    }


def _publication(one: Mapping[str, Any]) -> str:
    """What was published, and how far it was rounded or changed."""
    kind = _kinds()[one["kind"]]
    if one["variables"]:
        kind += _(" by {columns}").format(columns=", ".join(one["variables"]))
    if one["given"]:
        kind += _(" within {columns}").format(columns=", ".join(one["given"]))
    if one["digits"] is not None:
        kind += counted(", to {n} decimal", ", to {n} decimals", one["digits"])
    if one["base"] is not None:
        kind += _(", to multiples of {base}").format(base=number(one["base"]))
    if one["perturbation"] is not None:
        kind += _(", perturbed with {table}").format(table=one["perturbation"])
    if one["width"] > 1:
        kind += _(", every count of few units open by {width}").format(width=number(one["width"]))
    return kind + (_("; withdrawn, and what was read is known") if one["withdrawn"] else "")


def _released(released: Released) -> str:
    """By which columns a copy was judged, and what else it has."""
    told = [
        _("by {columns}").format(columns=", ".join(released.qi)),
        _("sensitive: {columns}").format(columns=", ".join(released.sensitive))
        if released.sensitive
        else _("no sensitive column was named, so l and t are not told"),
        released.found,
        _("copied as they are: {columns}").format(columns=", ".join(released.copied.names))
        if released.copied.names
        else _("no column is copied as it is"),
    ]
    return f"{released.table}: {'; '.join(told)}."
