"""Runs the corpus of attacks on an unguarded database: how many let a canary out, and does an audit miss one of those.

Run: python -m tests.bench.attacks_leaks
"""

import shutil
import tempfile
from pathlib import Path

import duckdb

from duckanon.integrations.audit.corpus import Corpus, Script, corpus
from duckanon.integrations.audit.findings import Verdict, audit
from tests.attacks import Attack, attacks, besieged, canaries

# Not run: they would reach for the network, end the process, or write to the terminal.
_LEFT_OUT = ("INSTALL", "LOAD", "/dev/", "enable_external_access", "lock_configuration", "SECRET", "profiling")


def leaks(attack: Attack, folder: Path) -> bool:
    """Whether a canary comes out in a result, a column's name or an error."""
    seen = ""
    with duckdb.connect(str(folder / "people.duckdb")) as con:
        con.execute("SET enable_progress_bar = false").fetchall()
        for statement in con.extract_statements(attack.placed(folder)):
            try:
                cursor = con.execute(statement)
                seen += repr([column[0] for column in cursor.description or []]) + repr(cursor.fetchall()[:1000])
            except duckdb.Error as error:
                seen += str(error).split("\n\nLINE")[0]  # the rest quotes the statement, with the attacker's guesses
    guessed = any(word in attack.sql for word in ("7001", "canary"))
    return (canaries(seen) and not guessed) or ("canary name" in seen and "canary name" not in attack.sql)


def main() -> None:
    run = [one for one in attacks() if one.parsed and not any(word in one.sql for word in _LEFT_OUT)]
    with tempfile.TemporaryDirectory() as top:
        home = Path(top) / "home"
        home.mkdir()
        besieged(home).close()
        known = corpus([home / "people.duckdb"])
        leaking, to_check, missed = 0, 0, []
        for number, attack in enumerate(run):
            folder = Path(top) / str(number)
            shutil.copytree(home, folder)
            if leaks(attack, folder):
                leaking += 1
                script = Script(Path("attack.sql"), attack.placed(folder))
                listed = audit(Corpus((*known.scripts, script), known.schema), ["persons"])
                verdicts = {one.verdict for one in listed if one.path == script.path}
                to_check += bool(verdicts) and Verdict.UNSAFE not in verdicts
                if not verdicts:
                    missed.append(f"{attack.kind}: {attack.tries}")
            shutil.rmtree(folder)
    print(f"duckdb {duckdb.__version__}: {len(run)} run, {leaking} let a canary out")
    print(f"of these an audit lists {leaking - to_check - len(missed)} as unsafe, {to_check} to check, and misses:")
    print(*missed, sep="\n")


if __name__ == "__main__":
    main()
