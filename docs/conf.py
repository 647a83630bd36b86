"""How the pages become a site: `sphinx-build -W -n docs <folder>`. They read as well on a code host, as they are.

The entrance is README.md. Its sections are the site's sidebar: each heading a caption, each link below it an entry. A
page that it does not link to stands at the end, so that none is lost.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

from duckanon import __version__

project = "duckanon"
author = "The duckanon founders"
copyright = author  # noqa: A001 # Sphinx's name
version = release = __version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "README"
myst_heading_anchors = 4
highlight_language = "none"

html_theme = "furo"
html_title = f"duckanon {version}"
html_copy_source = False
html_show_sphinx = False

HERE = Path(__file__).parent
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
PAGE = re.compile(r"\]\(([\w/-]+)\.md\)")


def sidebar(text: str) -> str:
    """The entrance's sections as hidden tables of contents, and a last one with whatever is linked from none."""
    left = {str(page.relative_to(HERE).with_suffix("")) for page in HERE.rglob("*.md")} - {root_doc}
    parts = []
    for caption, body in (*SECTION.findall(text), ("More", "".join(f"]({name}.md)" for name in sorted(left)))):
        named = [name for name in dict.fromkeys(PAGE.findall(body)) if name in left]
        left -= set(named)
        if named:
            parts.append(f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(named) + "\n```\n")
    return text + "".join(parts)


def setup(app: Sphinx) -> None:
    """Sphinx calls this once."""

    def read(_app: Sphinx, name: str, source: list[str]) -> None:
        if name == root_doc:
            source[0] = sidebar(source[0])

    app.connect("source-read", read)
