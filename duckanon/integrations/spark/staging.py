"""A table that is written once: whoever reads it later gets the same rows, and nothing is worked out or drawn again."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from duckanon.errors import DuckanonError, InvalidInput

# What Spark raises where something fails outside Python.
_FAILURES = (PySparkException, Py4JJavaError)


def folder(value: object) -> str | None:
    """The argument `staging`, checked."""
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise InvalidInput(
            "staging must be the path of a folder that does not exist yet, as in staging='s3://b/run-1'."
        )
    return os.fspath(value)


@contextmanager
def claimed(spark: SparkSession, path: str | None) -> Iterator[None]:
    """A new folder for the work to write in, made before. It is removed if the work fails, or leaves it empty.

    Raises InvalidInput if the folder exists or cannot be made, and DuckanonError for work that Spark cannot do. Without
    a path no folder is made.
    """
    try:
        with _folder(spark, path):
            yield
    except _FAILURES as error:
        missing = missing_package(str(error))
        if missing is not None:
            raise DuckanonError(
                f"Spark's Python has no {missing}: nothing was released; install it on the driver and on all "
                f"executors, with pip install {missing}."
            ) from error
        raise DuckanonError(
            "Spark could not read the table or write the answer: nothing was released, and nothing is left of it; the "
            "error before this one says why, such as a full disk."
        ) from error


def missing_package(text: str) -> str | None:
    """The Python package that is not there, by the text of Spark's error; None if the error is another."""
    match = _MISSING.search(text)
    return None if match is None else (match["module"] or match["package"]).lower()


# What a worker says, and what PySpark itself says of packages that it needs (PACKAGE_NOT_INSTALLED).
_MISSING = re.compile(
    r"No module named '(?P<module>\w+)|(?P<package>\w+) >= [\d.]+ must be installed; however, it was not found"
)


@contextmanager
def _folder(spark: SparkSession, path: str | None) -> Iterator[None]:
    if path is None:
        yield
        return
    place = spark._jvm.org.apache.hadoop.fs.Path(path)
    try:
        files = place.getFileSystem(spark._jsc.hadoopConfiguration())
        exists = files.exists(place)
        made = not exists and files.mkdirs(place)
    except _FAILURES:
        exists = made = False
    if exists:
        raise InvalidInput("The folder of staging exists: name one that does not, or remove it.")
    if not made:
        raise InvalidInput("The folder of staging cannot be made: name one where Spark may write.")
    try:
        yield
    except BaseException:
        files.delete(place, True)
        raise
    _remove_empty(files, place)


def _remove_empty(files: Any, place: Any) -> None:
    if not len(files.listStatus(place)):
        files.delete(place, True)


def written(table: DataFrame, path: str | None) -> DataFrame:
    """The table as it was written: as Parquet in a claimed folder or, without one, on the executors' own disks.

    What an executor held is lost with it; Spark then fails and works nothing out again.
    """
    if path is None:
        return table.localCheckpoint(eager=True)
    table.write.mode("append").parquet(path)
    return table.sparkSession.read.schema(table.schema).parquet(path)
