"""How the pages become a site: `sphinx-build -W -n docs <folder>`. They read as well on a code host, as they are.

The entrance is README.md. Its sections are the site's sidebar: each heading a caption, each link below it an entry. A
page that it does not link to stands under the page that does, or at the end, so that none is lost.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from sphinx.application import Sphinx

from duckanon import __version__

project = "duckanon"
author = "The duckanon founders"
copyright = author  # noqa: A001 # Sphinx's name
version = release = __version__

extensions = ["myst_parser"]
# Pygments' SQL knows no structs of DuckDB's, such as {'state': ['GA', 'NY']}.
suppress_warnings = ["misc.highlighting_failure"]
source_suffix = {".md": "markdown"}
root_doc = "README"
myst_heading_anchors = 4
highlight_language = "none"

html_theme = "furo"
# Room for a console of 100 columns.
html_theme_options = {"light_css_variables": {"code-font-size": "76%"}}
html_title = f"duckanon {version}"
html_copy_source = False
html_show_sphinx = False

HERE = Path(__file__).parent
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
PAGE = re.compile(r"\]\(([\w/.-]+)\.md\)")

# Pages that once lay beside this file, by the folder they are in now: their old addresses lead there.
MOVED = {
    "algorithms": "cell-methods group-size-mechanisms kanon-methods metric-methods table-methods",
    "contributing": "architecture",
    "functions": "allot allotments cell_bounds cell_key cell_key_table cell_values close_table conditional_bounds "
    "disclosure_report dp_group_sizes editions explain_privacy group_sizes k_anonymize k_certificate "
    "k_certificate_check k_compare k_report k_subsets k_utility methods metric_mechanism metric_perturb metric_report "
    "new_edition next_tables open_table policies prepare prepared privacy_budget privacy_ledger propose_domains "
    "protect publications publish record_risk release_audit suppress table_bounds table_designs truncation unprotect "
    "unpublish",
    "guarantee": "known-limits papers-map privacy-guarantee server-threat-model",
    "how-to": "analyst audit audit-in-ci command-line dbt explore harlequin jupyter large-tables pictures policy-files "
    "record report serve server-clients spark sqlalchemy what-next",
    "learn": "attackers-mode",
}
# Those that have another name now.
RENAMED = {"tutorial": "learn/officer"}
# A browser that runs no scripts loses the part after # alone.
REDIRECT = """<!doctype html>
<meta charset="utf-8">
<title>{page}</title>
<link rel="canonical" href="{page}">
<script>location.replace("{page}" + location.hash)</script>
<meta http-equiv="refresh" content="0; url={page}">
<p>This page is now <a href="{page}">{page}</a>.</p>
"""


def contents() -> dict[str, str]:
    """What is added to pages: hidden tables of contents, each page in the first one that its links allow."""
    left = {str(page.relative_to(HERE).with_suffix("")) for page in HERE.rglob("*.md")} - {root_doc}
    added: dict[str, str] = {}

    def add(to: str, pages: Iterable[str], caption: str = "") -> list[str]:
        named = [page for page in dict.fromkeys(pages) if page in left]
        left.difference_update(named)
        if named:
            head = f":caption: {caption}\n" if caption else ""
            listed = "\n".join(f"/{page}" for page in named)
            added[to] = added.get(to, "") + f"\n```{{toctree}}\n:hidden:\n{head}\n{listed}\n```\n"
        return named

    entrance = (HERE / f"{root_doc}.md").read_text(encoding="utf-8")
    linked = [
        page for caption, body in SECTION.findall(entrance) for page in add(root_doc, PAGE.findall(body), caption)
    ]
    for page in linked:
        links = PAGE.findall((HERE / f"{page}.md").read_text(encoding="utf-8"))
        add(page, (os.path.normpath(os.path.join(os.path.dirname(page), link)) for link in links))
    add(root_doc, sorted(left), "More")
    return added


def redirect(app: Sphinx, exception: Exception | None) -> None:
    """Write a page that leads on at each old address."""
    if exception is None and app.builder.format == "html":
        moved = {page: f"{folder}/{page}" for folder, pages in MOVED.items() for page in pages.split()}
        for old, new in (moved | RENAMED).items():
            (Path(app.outdir) / f"{old}.html").write_text(REDIRECT.format(page=f"{new}.html"), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Sphinx calls this once."""
    added = contents()

    def read(_app: Sphinx, name: str, source: list[str]) -> None:
        source[0] += added.get(name, "")

    app.connect("source-read", read)
    app.connect("build-finished", redirect)
