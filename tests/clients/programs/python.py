"""SQLAlchemy and pandas, polars, connectorx and ADBC, Django. python.py LIBRARY; prints a line for each step.

The address is in PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

_HOST, _PORT, _USER = os.environ["PGHOST"], os.environ["PGPORT"], os.environ["PGUSER"]
_PASSWORD, _DATABASE = os.environ["PGPASSWORD"], os.environ["PGDATABASE"]
URL = f"postgresql://{_USER}:{_PASSWORD}@{_HOST}:{_PORT}/{_DATABASE}"
SINCE = datetime(2024, 2, 1)
CHART = "SELECT date_trunc('month', visit_ts) AS month, count(*) AS n FROM visits GROUP BY 1 ORDER BY 1"
PROTECTED = "SELECT county, count(*) AS n FROM persons GROUP BY county ORDER BY county"


def step(name: str, run: Callable[[], Any]) -> None:
    try:
        print(name, "ok", str(run())[:80].replace("\n", " "), sep="\t", flush=True)
    except Exception as error:
        print(name, "error", " ".join(str(error).split())[:300], sep="\t", flush=True)


def sqlalchemy() -> None:
    import sqlalchemy as sa

    for driver in ("psycopg", "psycopg2"):
        engine = sa.create_engine(URL.replace("postgresql:", f"postgresql+{driver}:"))
        reflected(engine)
        charts(engine)
        engine.dispose()


def reflected(engine: Any) -> None:
    """All that SQLAlchemy reads of a database, of one table and of all at once."""
    import sqlalchemy as sa

    known, seen, every = sa.MetaData(), sa.inspect(engine), sa.engine.reflection.ObjectKind.ANY
    step("reflect", lambda: known.reflect(engine, views=True) or sorted(known.tables))
    for name in (
        *("columns", "pk_constraint", "foreign_keys", "indexes", "unique_constraints", "check_constraints"),
        "table_comment",
    ):
        step(name, partial(getattr(seen, f"get_{name}"), "persons"))
        step(f"multi {name}", partial(getattr(seen, f"get_multi_{name}"), kind=every))
    for name in (
        *("schema_names", "table_names", "view_names", "materialized_view_names", "sequence_names"),
        *("temp_table_names", "enums", "domains"),
    ):
        step(name, getattr(seen, f"get_{name}"))
    step("view definition", lambda: seen.get_view_definition("labels"))


def charts(engine: Any) -> None:
    """Filters and charts by time, and pandas."""
    import pandas as pd
    import sqlalchemy as sa

    visits = sa.Table("visits", sa.MetaData(), autoload_with=engine)
    first, last = date(2024, 1, 1), date(2024, 1, 31)
    count, month = sa.select(sa.func.count()), sa.func.date_trunc("month", visits.c.visit_ts).label("month")
    by_month = sa.select(month, sa.func.count()).group_by(month).order_by(month)
    with engine.connect() as con:
        step("since", lambda: con.execute(count.where(visits.c.visit_ts >= SINCE)).scalar())
        step("between", lambda: con.execute(count.where(visits.c.day.between(first, last))).scalar())
        step("in", lambda: con.execute(count.where(visits.c.shop.in_([1, 2]))).scalar())
        step("chart", lambda: len(con.execute(by_month).all()))
        step("protected chart", lambda: con.execute(sa.text(PROTECTED)).all())
    since = sa.text("SELECT * FROM visits WHERE visit_ts >= :since")
    step("pandas", lambda: pd.read_sql(CHART, engine).shape)
    step("pandas table", lambda: pd.read_sql_table("visits", engine).shape)
    step("pandas parameters", lambda: pd.read_sql(since, engine, params={"since": SINCE}).shape)
    step("export", lambda: len(pd.read_sql("SELECT * FROM visits", engine).to_csv()))


def arrow() -> None:
    import adbc_driver_postgresql.dbapi as adbc
    import connectorx as cx
    import polars as pl

    step("polars", lambda: pl.read_database_uri(CHART, URL, engine="connectorx").shape)
    step("polars adbc", lambda: pl.read_database_uri("SELECT * FROM visits", URL, engine="adbc").shape)
    step("connectorx", lambda: cx.read_sql(URL, "SELECT * FROM visits", return_type="arrow").num_rows)
    step(
        "connectorx in parts",
        lambda: (
            cx.read_sql(
                URL, "SELECT * FROM visits", partition_on="visit", partition_num=2, return_type="arrow"
            ).num_rows
        ),
    )
    step("connectorx protected", lambda: cx.read_sql(URL, PROTECTED, return_type="arrow").num_rows)
    step(
        "connectorx cursor",
        lambda: cx.read_sql(URL, "SELECT * FROM kinds", protocol="cursor", return_type="arrow").num_rows,
    )
    with adbc.connect(URL) as con, con.cursor() as cursor:
        step("adbc objects", lambda: con.adbc_get_objects(depth="all").read_all().num_rows)
        step("adbc schema", lambda: con.adbc_get_table_schema("persons", db_schema_filter="main"))
        step("adbc types", lambda: con.adbc_get_table_types())
        step("adbc query", lambda: cursor.execute(CHART) or cursor.fetch_arrow_table().num_rows)
        step(
            "adbc parameters",
            lambda: cursor.execute("SELECT count(*) FROM visits WHERE visit_ts >= $1", (SINCE,)) or cursor.fetchone(),
        )
        step("adbc protected", lambda: cursor.execute(PROTECTED) or cursor.fetch_arrow_table().num_rows)


def django() -> None:
    import django
    from django.conf import settings

    own = {"ENGINE": "django.db.backends.postgresql", "HOST": _HOST, "PORT": _PORT, "USER": _USER}
    settings.configure(DATABASES={"default": {**own, "PASSWORD": _PASSWORD, "NAME": _DATABASE}}, USE_TZ=True)
    django.setup()
    from django.core.management import call_command
    from django.db import connection, models
    from django.db.models.functions import TruncMonth

    def inspected() -> int:
        said = io.StringIO()
        call_command("inspectdb", "--include-views", stdout=said)
        assert "unable to inspect" not in said.getvalue().lower(), said.getvalue()
        return len(said.getvalue())

    class Visit(models.Model):
        visit = models.BigIntegerField(primary_key=True)
        shop = models.IntegerField()
        visit_ts = models.DateTimeField()
        day = models.DateField()

        class Meta:
            app_label, db_table, managed = "served", "visits", False

    class Person(models.Model):
        county = models.TextField(primary_key=True)

        class Meta:
            app_label, db_table, managed = "served", "persons", False

    since = datetime(2024, 2, 1, tzinfo=UTC)
    visits = Visit.objects
    step("tables", lambda: sorted(connection.introspection.table_names()))
    step("inspectdb", inspected)
    step("browse", lambda: list(visits.order_by("visit")[:3]))
    step("since", lambda: visits.filter(visit_ts__gte=since).count())
    step("range", lambda: visits.filter(day__range=(date(2024, 1, 1), date(2024, 1, 31))).count())
    step("year", lambda: visits.filter(day__year=2024).count())
    step("in", lambda: visits.filter(shop__in=[1, 2]).count())
    step(
        "chart",
        lambda: list(
            visits.annotate(month=TruncMonth("day")).values("month").annotate(n=models.Count("*")).order_by("month")
        ),
    )
    step(
        "chart of moments",
        lambda: list(
            visits.annotate(month=TruncMonth("visit_ts"))
            .values("month")
            .annotate(n=models.Count("*"))
            .order_by("month")
        )[:2],
    )
    step("aggregate", lambda: visits.aggregate(models.Min("day"), models.Max("day"), models.Avg("shop")))
    step(
        "protected chart",
        lambda: list(Person.objects.values("county").annotate(n=models.Count("*")).order_by("county")),
    )
    step("iterator", lambda: sum(1 for _ in visits.iterator(chunk_size=100)))
    step("explain", lambda: visits.filter(shop=1).explain())
    step("later", lambda: visits.filter(visit_ts__lt=since + timedelta(days=1)).exists())


if __name__ == "__main__":
    {"sqlalchemy": sqlalchemy, "arrow": arrow, "django": django}[sys.argv[1]]()
