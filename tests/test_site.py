"""The documentation becomes a site without a warning; no page is lost, and nothing is loaded from elsewhere.

A test, and not a step of CI of its own, so that whoever runs the tests sees a broken page.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
# What a browser fetches by itself: scripts, style sheets, fonts, pictures, frames.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|embed)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b(?![^>]*rel=["'](?:canonical|author|license)["'])[^>]*\bhref=["']?(?:https?:)?//"""
    r"""|url\(\s*["']?(?:https?:)?//|@import\s+["'](?:https?:)?//"""
)
LEADS = re.compile(r"""<meta http-equiv="refresh" content="0; url=([^"]+)">""")


pytestmark = pytest.mark.ci("Sphinx writes the whole site")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    built = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-q",
            "-W",
            "--keep-going",
            "-n",
            "-d",
            built / "doctrees",
            DOCS,
            built / "html",
        ],
        capture_output=True,
        text=True,
        cwd=DOCS.parent,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return built / "html"


@pytest.mark.ci("Sphinx builds the site, which takes long")
def test_every_page_is_there(site: Path) -> None:
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    assert pages <= {page.relative_to(site) for page in site.rglob("*.html")}
    sidebar = (site / "README.html").read_text(encoding="utf-8")
    assert [str(page) for page in pages if f'href="{page}"' not in sidebar and page.name != "README.html"] == []


def test_old_addresses_lead_to_pages(site: Path) -> None:
    leads = {page.name: found[1] for page in site.glob("*.html") if (found := LEADS.search(page.read_text("utf-8")))}
    assert len(leads) == 74
    assert {page for page in leads.values() if not (site / page).is_file()} == set()
    assert {old: page for old, page in leads.items() if Path(page).name != old} == {
        "tutorial.html": "learn/officer.html"
    }


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    written = [file for kind in ("html", "css") for file in site.rglob(f"*.{kind}")]
    assert len(written) > 30
    for file in written:
        assert FETCHED.search(file.read_text(encoding="utf-8")) is None, file


def test_what_is_looked_for_would_be_found() -> None:
    for text in (
        '<script async src="https://cdn.example/x.js">',
        '<link rel="stylesheet" href="//fonts.example/f.css">',
        "src: url(https://fonts.example/f.woff2)",
    ):
        assert FETCHED.search(text)
    assert FETCHED.search('<a href="https://github.com/pradyunsg/furo">Furo</a>') is None
