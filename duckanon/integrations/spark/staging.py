"""A table that is written once: whoever reads it later gets the same rows, and nothing is worked out or drawn again."""

from __future__ import annotations

import os

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from duckanon.errors import InvalidInput


def folder(given: object) -> str | None:
    """The argument `staging`, checked."""
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise InvalidInput(
            "staging must be the path of a folder that does not exist yet, as in staging='s3://b/run-1'."
        )
    return os.fspath(given)


def written(table: DataFrame, path: str | None) -> DataFrame:
    """The table as it was written: as Parquet in a new folder or, without one, on the executors' own disks.

    What an executor held is lost with it; Spark then fails and works nothing out again. Raises InvalidInput if the
    folder exists.
    """
    if path is None:
        return table.localCheckpoint(eager=True)
    try:
        table.write.parquet(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise InvalidInput("The folder of staging exists: name one that does not, or remove it.") from None
    return table.sparkSession.read.schema(table.schema).parquet(path)
