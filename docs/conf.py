"""How the pages become a site: `sphinx-build -W -n docs <folder>`. They read as well on a code host, as they are.

The entrance is README.md. Its sections are the site's sidebar: each heading a caption, each link below it an entry. A
page that it does not link to stands under the page that does, or at the end, so that none is lost.
"""

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
PAGE = re.compile(r"\]\(([\w/-]+)\.md\)")


def contents() -> dict[str, str]:
    """What is added to pages: hidden tables of contents, each page in the first one that its links allow."""
    left = {str(page.relative_to(HERE).with_suffix("")) for page in HERE.rglob("*.md")} - {root_doc}
    added: dict[str, str] = {}

    def add(to: str, pages: Iterable[str], caption: str = "") -> list[str]:
        named = [page for page in dict.fromkeys(pages) if page in left]
        left.difference_update(named)
        if named:
            head = f":caption: {caption}\n" if caption else ""
            added[to] = added.get(to, "") + f"\n```{{toctree}}\n:hidden:\n{head}\n" + "\n".join(named) + "\n```\n"
        return named

    entrance = (HERE / f"{root_doc}.md").read_text(encoding="utf-8")
    linked = [
        page for caption, body in SECTION.findall(entrance) for page in add(root_doc, PAGE.findall(body), caption)
    ]
    for page in linked:
        add(page, PAGE.findall((HERE / f"{page}.md").read_text(encoding="utf-8")))
    add(root_doc, sorted(left), "More")
    return added


def setup(app: Sphinx) -> None:
    """Sphinx calls this once."""
    added = contents()

    def read(_app: Sphinx, name: str, source: list[str]) -> None:
        source[0] += added.get(name, "")

    app.connect("source-read", read)
