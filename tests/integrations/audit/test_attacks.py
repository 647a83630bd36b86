"""An audit lists every attack of the corpus that names the protected table in a query."""

from pathlib import Path

import pytest

from duckanon.integrations.audit.corpus import Corpus, Script, corpus
from duckanon.integrations.audit.findings import audit
from tests.attacks import attacks, besieged

# Statements about the table that let nothing of it out by themselves, and calls that are releases.
_NOT_READS = {
    "truncate: to see whether it is allowed",
    "drop: the table under protection",
    "shadow: renamed away",
    "our own: the rows as classes with k of one",
    "our own: the identifying columns kept",
    "our own: the protected table within one of the sender's",
    "comment: nested, as some parsers read it",
    "serialized: the plan",
    "view: a text that ends the view and begins another statement",
}
# About what is stored beside the table.
_BESIDE = {"metadata", "policy"}


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("besieged")
    besieged(folder).close()
    return corpus([folder / "people.duckdb"])


def test_every_attack_on_the_table_is_listed(known: Corpus, tmp_path: Path) -> None:
    missed = []
    for attack in attacks():
        if not attack.parsed or "persons" not in attack.sql.lower() or attack.kind in _BESIDE:
            continue
        script = Script(Path("attack.sql"), attack.placed(tmp_path))
        found = audit(Corpus((*known.scripts, script), known.schema), ["persons"])
        if not any(one.path == script.path for one in found):
            missed.append(f"{attack.kind}: {attack.tries}")
    assert set(missed) <= _NOT_READS
