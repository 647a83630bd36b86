"""pgAdmin 4, by its own REST endpoints: connect, tree, properties, statistics, dashboard, query tool, export, cancel.

Runs inside the environment where pgadmin4 is installed, in pgAdmin's desktop mode, which asks for no login of its own.
The address is in PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE. Prints one line for each step.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Nodes of the tree by what is above them.
_OF_SERVER = ("role", "tablespace")
_OF_DATABASE = (
    *("schema", "catalog", "extension", "language", "cast", "event_trigger", "foreign_data_wrapper", "publication"),
    "subscription",
)
_OF_SCHEMA = (
    *("table", "view", "mview", "sequence", "function", "procedure", "trigger_function", "type", "domain", "collation"),
    *("aggregate", "operator", "foreign_table", "fts_configuration", "fts_dictionary", "fts_parser", "fts_template"),
)
_OF_TABLE = (
    *("column", "index", "trigger", "rule", "row_security_policy", "partition", "primary_key"),
    *("unique_constraint", "foreign_key", "exclusion_constraint"),
)
_TABS = ("obj", "sql", "stats", "dependency", "dependent", "nodes", "children")
_DASHBOARD = ("activity", "locks", "prepared", "config", "replication_stats", "replication_slots")
_CHARTS = "session_stats,tps_stats,ti_stats,to_stats,bio_stats"
_QUESTIONS = {
    "open": "SELECT * FROM counties ORDER BY county",
    "since": "SELECT count(*) FROM visits WHERE visit_ts >= '2024-02-01'",
    "chart": "SELECT date_trunc('month', visit_ts) AS month, count(*) FROM visits GROUP BY 1 ORDER BY 1",
    "protected chart": "SELECT county, count(*) AS n FROM persons GROUP BY county ORDER BY county",
    "explain": "EXPLAIN (FORMAT JSON, ANALYZE OFF, VERBOSE OFF, COSTS OFF, BUFFERS OFF, TIMING OFF, "
    "SUMMARY OFF, SETTINGS OFF, WAL OFF) SELECT * FROM counties",
}


def application() -> Any:
    """pgAdmin's Flask application, with its files in a folder of its own."""
    spec = find_spec("pgadmin4")
    assert spec is not None
    assert spec.submodule_search_locations
    root = Path(next(iter(spec.submodule_search_locations)))
    sys.path.insert(0, str(root))
    os.chdir(root)
    builtins.SERVER_MODE = False  # type: ignore[attr-defined]
    import config

    home = Path(tempfile.mkdtemp())
    paths = {"SQLITE_PATH": "pgadmin.db", "SESSION_DB_PATH": "sessions", "STORAGE_DIR": "storage", "LOG_FILE": "log"}
    for name, value in {
        **{one: str(home / file) for one, file in paths.items()},
        "DATA_DIR": str(home),
        "AZURE_CREDENTIAL_CACHE_DIR": str(home / "azure"),
        "KERBEROS_CCACHE_DIR": str(home / "kerberos"),
        "CONSOLE_LOG_LEVEL": 50,
        "MASTER_PASSWORD_REQUIRED": False,
        "SERVER_MODE": False,
        "UPGRADE_CHECK_ENABLED": False,
        "USE_OS_SECRET_STORAGE": False,
        "WTF_CSRF_ENABLED": False,
    }.items():
        setattr(config, name, value)
    from pgadmin import create_app

    made = create_app()
    made.config["WTF_CSRF_ENABLED"] = False
    made.PGADMIN_RUNTIME, made.PGADMIN_INT_KEY = True, ""
    with made.app_context():
        made.run_before_app_start()
    return made


class Browser:
    """What the page does in a browser. Each step is printed."""

    def __init__(self, client: Any) -> None:
        self._client, self.failed = client, 0

    def ask(self, name: str, method: str, url: str, body: Any = None) -> Any:
        try:
            answer = self._client.open(url, method=method, json=body)
        except Exception as error:
            print(name, f"{type(error).__name__}: {str(error)[:200]}", sep="\t", flush=True)
            self.failed += 1
            return None
        said: Any = answer.get_json(silent=True)
        problem = ""
        if answer.status_code >= 400 or (isinstance(said, dict) and said.get("success") == 0):
            problem = str((said or {}).get("errormsg") or answer.status)
        elif isinstance(said, dict) and isinstance(said.get("data"), dict) and said["data"].get("status") is False:
            problem = str(said["data"])
        if name:
            self.failed += bool(problem)
            print(name, " ".join(problem.split())[:300] or "ok", sep="\t", flush=True)
        return said

    def nodes(self, kind: str, path: str) -> list[dict[str, Any]]:
        said = self.ask(f"nodes of {kind}", "GET", f"/browser/{kind}/nodes/{path}")
        return list(said.get("data") or []) if isinstance(said, dict) else []

    def tabs(self, kind: str, path: str) -> None:
        for tab in _TABS:
            if tab == "stats" and kind in ("schema", "view"):  # these have no statistics
                continue
            self.ask(f"{tab} of {kind}", "GET", f"/browser/{kind}/{tab}/{path}")

    def query(self, at: int, name: str, text: str) -> None:
        """A question in the query tool, until its answer is there."""
        started = self.ask(
            f"start {name}", "POST", f"/sqleditor/query_tool/start/{at}", {"sql": text, "explain_plan": None}
        )
        if isinstance(started, dict):
            self.poll(at, name)

    def poll(self, at: int, name: str, seconds: float = 20) -> None:
        for _ in range(int(seconds / 0.2)):
            data = (self.ask("", "GET", f"/sqleditor/poll/{at}") or {}).get("data") or {}
            if data.get("status") != "Busy":
                break
            time.sleep(0.2)
        is_answer = data.get("status") == "Success"
        self.failed += not is_answer
        print(f"poll {name}", "ok" if is_answer else " ".join(str(data.get("result", data)).split())[:300], sep="\t")


def main() -> int:
    app = application()
    with app.test_client() as client:
        browser = Browser(client)
        client.get("/?key=")
        walk(browser)
    return min(browser.failed, 100)


def walk(browser: Browser) -> None:
    made = browser.ask("add server", "POST", "/browser/server/obj/1/", {
        "name": "served", "host": os.environ["PGHOST"],
        "port": int(os.environ["PGPORT"]), "db": os.environ["PGDATABASE"],
        "username": os.environ["PGUSER"], "password": os.environ["PGPASSWORD"],
        "save_password": 1, "role": "", "gid": 1,
        "connection_params": [{"name": "sslmode", "keyword": "sslmode", "value": "prefer"}], "connect_now": False,
    })  # fmt: skip
    server = made["node"]["_id"]
    secret = {"password": os.environ["PGPASSWORD"], "save_password": False}
    browser.ask("connect", "POST", f"/browser/server/connect/1/{server}", secret)
    browser.tabs("server", f"1/{server}")
    for kind in _OF_SERVER:
        browser.nodes(kind, f"1/{server}/")
    databases = browser.nodes("database", f"1/{server}/")
    own = next((one for one in databases if one["label"] == os.environ["PGDATABASE"]), None)
    if own is None:
        return
    database = own["_id"]
    path = f"1/{server}/{database}"
    browser.ask("connect database", "POST", f"/browser/database/connect/{path}", {})
    browser.tabs("database", path)
    for kind in _OF_DATABASE:
        found = browser.nodes(kind, f"{path}/")
        if kind == "schema":
            for schema in found:
                walk_schema(browser, path, schema)
    dashboard(browser, server, database)
    query_tool(browser, server, database)


def walk_schema(browser: Browser, path: str, schema: dict[str, Any]) -> None:
    inside = f"{path}/{schema['_id']}"
    browser.tabs("schema", inside)
    for kind in _OF_SCHEMA:
        browser.ask(f"obj of {kind}", "GET", f"/browser/{kind}/obj/{inside}/")
        found = browser.nodes(kind, f"{inside}/")
        for one in found:
            if one["label"] in ("persons", "visits", "labels"):
                browser.tabs(kind, f"{inside}/{one['_id']}")
            if one["label"] != "persons":
                continue
            for part in _OF_TABLE:
                columns = browser.nodes(part, f"{inside}/{one['_id']}/")
                if part == "column":
                    browser.tabs(part, f"{inside}/{one['_id']}/{columns[0]['_id']}")
            for text in ("select_sql", "count_rows"):
                browser.ask(text, "GET", f"/browser/table/{text}/{inside}/{one['_id']}")


def dashboard(browser: Browser, server: int, database: int) -> None:
    for where in (f"{server}", f"{server}/{database}"):
        browser.ask("dashboard charts", "GET", f"/dashboard/dashboard_stats/{where}?chart_names={_CHARTS}")
        browser.ask("system statistics", "GET", f"/dashboard/check_extension/system_statistics/{where}")
        for one in _DASHBOARD[:3]:
            browser.ask(f"dashboard {one}", "GET", f"/dashboard/{one}/{where}")
    for one in _DASHBOARD[3:]:
        browser.ask(f"dashboard {one}", "GET", f"/dashboard/{one}/{server}")


def query_tool(browser: Browser, server: int, database: int) -> None:
    at = 7654321
    secret = {"password": os.environ["PGPASSWORD"], "user": os.environ["PGUSER"], "dbname": os.environ["PGDATABASE"]}
    browser.ask("query tool", "POST", f"/sqleditor/initialize/sqleditor/{at}/1/{server}/{database}", secret)
    for name, text in _QUESTIONS.items():
        browser.query(at, name, text)
    browser.ask("status", "GET", f"/sqleditor/status/{at}")
    browser.ask("completion", "POST", f"/sqleditor/autocomplete/{at}", ["SELECT * FROM cou", ""])
    browser.ask(
        "export", "POST", f"/sqleditor/query_tool/download/{at}", {"query": _QUESTIONS["open"], "filename": "a.csv"}
    )
    long = "SELECT sum(a.visit * b.visit * c.visit) FROM visits a, visits b, visits c"
    browser.ask("start long", "POST", f"/sqleditor/query_tool/start/{at}", {"sql": long, "explain_plan": None})
    time.sleep(1)
    browser.ask("cancel", "POST", f"/sqleditor/cancel/{at}", {})
    browser.ask("close", "DELETE", f"/sqleditor/close/{at}")


if __name__ == "__main__":
    print(json.dumps({"pgadmin": sys.version.split()[0]}), file=sys.stderr)
    sys.exit(main())
