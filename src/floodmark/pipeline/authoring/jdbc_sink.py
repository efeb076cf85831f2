"""Writes batches to a database exactly once, by JDBC.

Called by `targets.py` for `@pipeline.sink(format="jdbc", ...)`. Tasks write their rows into a
staging table with Spark's own JDBC writer, so its options, types and drivers apply, and rows never
pass through the driver. Then the driver merges them into the target in one transaction, which also
records the batch. A batch that comes again finds its mark and is skipped.

Spark may run a task twice, and Spark's writer would then stage its rows twice. So staged rows are
numbered, and staging is repeated if a number is there twice. Every attempt has a staging table of
its own, which a straggler of an earlier one cannot reach.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from floodmark.clock import Clock, SystemClock
from floodmark.pipeline.authoring.jdbc_connection import Connection, DatabaseAway, connect
from floodmark.pipeline.authoring.jdbc_sql import (
    ROW_COLUMN,
    STAGE_PREFIX,
    Statements,
    can_upsert,
    check_mark,
    driver_of,
    has_one_writer,
)
from floodmark.pipeline.authoring.parsing import exact_column
from floodmark.pipeline.datasource.options import Options
from floodmark.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from floodmark.pipeline.authoring.declared import Output

JDBC = "jdbc"
# As long as a pipeline waits for brokers.
_PATIENCE_MS = 120_000
_PAUSE_SECONDS = 1.0
# A task that ran twice is rare; one that does so three times in a row has another problem.
_MOST_STAGINGS = 3


def jdbc_writer(
    output: Output, options: Mapping[str, str], query: str
) -> Callable[[DataFrame, int], None]:
    """A `foreachBatch` function. `query` names the marks: the same after a restart.

    Once it has reached the database, it waits for one that goes away. A batch that was interrupted
    is attempted again: its mark says whether it was written.
    """
    patience = Patience()

    def write_batch(rows: DataFrame, batch: int) -> None:
        patience.run(lambda: _BatchWriter(output, options, query, rows, batch).write())

    return write_batch


class Patience:
    """Repeats work while the database is away, for a limited time."""

    def __init__(self, clock: Clock | None = None, pause: Callable[[float], object] | None = None):
        self._clock = clock or SystemClock()
        self._pause = pause or threading.Event().wait
        self._has_reached = False

    def run(self, work: Callable[[], None]) -> None:
        deadline_ms: float | None = None
        while True:
            try:
                work()
                self._has_reached = True
                return
            except DatabaseAway:
                now_ms = self._clock.monotonic_ms()
                # Not from the beginning: a batch may take long before the database goes away.
                if deadline_ms is None:
                    deadline_ms = now_ms + _PATIENCE_MS
                if not self._has_reached or now_ms > deadline_ms:
                    raise
            self._pause(_PAUSE_SECONDS)


def set_driver(options: dict[str, str]) -> None:
    """Names the driver of a database that we know, and how it waits, unless the author did."""
    given = Options(options)
    url = given.text("url") or ""
    defaults = {"driver": driver_of(url)}
    if has_one_writer(url):
        # Outputs of one file wait for each other.
        defaults |= {"numPartitions": "1", "busy_timeout": "60000"}
    for name, value in defaults.items():
        if value is not None and given.text(name) is None:
            options[name] = value


def check_upsert(output: Output, options: Mapping[str, str]) -> None:
    url = Options(options).text("url") or ""
    if output.key_columns and not can_upsert(url):
        raise PipelineError(
            f"{output.name} replaces rows by key, which is supported for PostgreSQL and SQLite, "
            f"not for {':'.join(url.split(':')[:2])}: remove key to append rows exactly once, or "
            "write a function with @pipeline.batch_sink()"
        )


class _BatchWriter:
    def __init__(
        self, output: Output, options: Mapping[str, str], query: str, rows: DataFrame, batch: int
    ) -> None:
        self._output = output
        self._options = dict(options)
        self._query = query
        self._batch = batch
        self._rows = _newest(rows, output)
        self._spark: SparkSession = rows.sparkSession
        given = Options(options)
        self._table = given.text("dbtable") or ""
        self._sql = Statements(self._table, rows.columns, output.key_columns)

    def write(self) -> None:
        with connect(self._spark, self._options) as connection:
            if self._is_written(connection):
                # Read the rows anyway: state stores upstream commit when they are.
                self._rows.write.format("noop").mode("overwrite").save()
                return
            self._create_target(connection)
            for _ in range(_MOST_STAGINGS):
                if self._attempt(connection):
                    return
        raise PipelineError(
            f"{self._output.name}: tasks of batch {self._batch} were repeated in "
            f"{_MOST_STAGINGS} attempts, so its rows could not be staged once. Nothing was written"
        )

    def _is_written(self, connection: Connection) -> bool:
        """Checks the mark, and creates it for the first batch."""
        self._create_marks(connection)
        found = connection.first(self._sql.read_mark(), self._query)
        # SQLite refuses to write in a transaction that began by reading, if another one writes.
        connection.commit()
        known = None if found is None else int(found[0])
        first = self._output.first_exact_batch
        if check_mark(known, self._batch, first):
            return True
        if known is None:
            connection.run(self._sql.add_mark(), None, self._batch - 1, self._query)
        elif found is not None and found[1] is not None:
            # An earlier run ended before it could remove its staging table.
            connection.run(self._sql.drop(self._sql.beside(str(found[1]))))
        connection.commit()
        return False

    def _create_marks(self, connection: Connection) -> None:
        """Other outputs may create the table at the same moment."""
        if connection.exists(self._sql.marks):
            return
        try:
            connection.run(self._sql.create_marks())
            connection.commit()
        except PipelineError:
            if not connection.exists(self._sql.marks):
                raise

    def _create_target(self, connection: Connection) -> None:
        """Creates the table with Spark's types and a unique index for the keys, unless it
        exists."""
        if connection.exists(self._table):
            return
        connection.run(self._sql.create_table(connection.columns(self._spark, self._rows)))
        if self._output.key_columns:
            name = hashlib.sha256(self._table.encode()).hexdigest()[:12]
            connection.run(self._sql.create_key(f"floodmark_key_{name}"))
        connection.commit()

    def _attempt(self, connection: Connection) -> bool:
        """Stages and merges. False if a task was repeated, so that nothing is written."""
        name = STAGE_PREFIX + uuid.uuid4().hex[:16]
        stage = self._sql.beside(name)
        connection.run(self._sql.name_stage(), name, self._batch - 1, self._query)
        connection.run(self._sql.create_stage(stage))
        connection.commit()
        try:
            self._stage(stage)
            connection.read_snapshot()
            self._move_mark(connection)
            repeated: Any = connection.first(self._sql.count_repeated_rows(stage))
            if repeated[0]:
                return False
            self._check_keys(connection, stage)
            connection.run(self._sql.merge(stage))
            connection.commit()
            return True
        finally:
            # A database that is gone keeps the stage; the mark names it for the next attempt.
            with suppress(PipelineError):
                connection.rollback()
                connection.run(self._sql.drop(stage))
                connection.commit()

    def _stage(self, stage: str) -> None:
        rows = self._rows.withColumn(ROW_COLUMN, F.monotonically_increasing_id())
        options = {name: v for name, v in self._options.items() if name.lower() != "dbtable"}
        rows.write.format(JDBC).options(**options).option("dbtable", stage).mode("append").save()

    def _move_mark(self, connection: Connection) -> None:
        moved = connection.run(self._sql.move_mark(), self._batch, self._batch - 1, self._query)
        if moved != 1:
            raise PipelineError(
                f"{self._output.name}: another run wrote batch {self._batch} at the same time. "
                "Stop one of them"
            )

    def _check_keys(self, connection: Connection, stage: str) -> None:
        if not self._output.key_columns:
            return
        keys = ", ".join(self._output.key_columns)
        found: Any = connection.first(self._sql.count_missing_keys(stage))
        if found[0]:
            raise PipelineError(
                f"{self._output.name}: {found[0]} rows of batch {self._batch} have no {keys}, so "
                "they cannot be found again. Filter them, or fill in the key"
            )
        found = connection.first(self._sql.count_repeated_keys(stage))
        if found[0]:
            raise PipelineError(
                f"{self._output.name}: batch {self._batch} has several rows for {found[0]} values "
                f"of {keys}. Say which of them counts with latest_by, or aggregate by the key"
            )


def _newest(rows: DataFrame, output: Output) -> DataFrame:
    """One row for each key, if the author said which."""
    if output.latest_by is None:
        return rows
    record = F.struct(*map(exact_column, rows.columns))
    newest = F.max_by(record, exact_column(output.latest_by)).alias("r")
    return rows.groupBy(*map(exact_column, output.key_columns)).agg(newest).select("r.*")
