"""A JDBC connection of the driver, through Spark's own drivers and options.

Called by `jdbc_sink.py`. Only statements go this way; rows go from the tasks to the database.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from floodmark.pipeline.errors import PipelineError, short_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The numbers of java.sql.Connection and java.sql.Types.
_REPEATABLE_READ = 4
_SERIALIZABLE = 8
_VARCHAR = 12
_PROBE_SECONDS = 5


class DatabaseAway(PipelineError):
    """No connection to the database, or not any more."""


@contextmanager
def connect(spark: SparkSession, options: Mapping[str, str]) -> Iterator[Connection]:
    """A connection without autocommit. What was not committed is rolled back."""
    try:
        java, parsed = _open(spark, options)
    except (PySparkException, Py4JJavaError) as error:
        raise DatabaseAway(
            f"the database cannot be reached: {short_text(error)}. Check url, user and password; "
            "its driver is a jar that Spark needs, with --conf spark.jars.packages"
        ) from error
    try:
        java.setAutoCommit(False)
        yield Connection(java, parsed)
    except (PipelineError, PySparkException, Py4JJavaError) as error:
        if java.isValid(_PROBE_SECONDS):
            raise
        raise DatabaseAway(f"the connection to the database broke: {short_text(error)}") from error
    finally:
        java.close()


def find_driver(spark: SparkSession, options: Mapping[str, str]) -> None:
    """Raises if Spark has no driver for the address. Connects to nothing."""
    try:
        _parse(spark, options)
    except (PySparkException, Py4JJavaError) as error:
        raise PipelineError(
            f"the database cannot be used: {short_text(error)}. Its driver is a jar that Spark "
            "needs: --conf spark.jars.packages=GROUP:ARTIFACT:VERSION, such as "
            "org.postgresql:postgresql:42.7.14 or org.xerial:sqlite-jdbc:3.49.1.0, or --conf "
            "spark.jars=FILE"
        ) from error


def _parse(spark: SparkSession, options: Mapping[str, str]) -> Any:
    """Spark's form of the options, which also finds the driver."""
    jvm: Any = spark.sparkContext._jvm
    given = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(options))
    return jvm.org.apache.spark.sql.execution.datasources.jdbc.JdbcOptionsInWrite(given)


def _open(spark: SparkSession, options: Mapping[str, str]) -> tuple[Any, Any]:
    """Opens a connection as Spark does, which also finds drivers in added jars."""
    jvm: Any = spark.sparkContext._jvm
    parsed = _parse(spark, options)
    dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(parsed.url())
    return dialect.createConnectionFactory(parsed).apply(-1), parsed


class Connection:
    def __init__(self, java: Any, options: Any) -> None:
        self._java = java
        self._options = options

    def columns(self, spark: SparkSession, rows: DataFrame) -> str:
        """The columns of a new table for these rows, with the types that Spark chooses."""
        jvm: Any = spark.sparkContext._jvm
        frame: Any = rows
        dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(self._options.url())
        text: str = jvm.org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils.schemaString(
            dialect, frame._jdf.schema(), False, self._options.createTableColumnTypes()
        )
        return text

    def run(self, sql: str, *values: str | int | None) -> int:
        """Returns the number of rows it changed."""
        with self._prepared(sql, values) as statement:
            changed: int = statement.executeUpdate()
            return changed

    def first(self, sql: str, *values: str | int | None) -> list[Any] | None:
        """The first row of a result."""
        with self._prepared(sql, values) as statement:
            result = statement.executeQuery()
            if not result.next():
                return None
            count = result.getMetaData().getColumnCount()
            return [result.getObject(column) for column in range(1, count + 1)]

    def exists(self, table: str) -> bool:
        # A failed statement ends the transaction in PostgreSQL.
        self.rollback()
        try:
            self.first(f"SELECT 1 FROM {table} WHERE 1 = 0")
        except PipelineError:
            return False
        finally:
            self.rollback()
        return True

    def read_snapshot(self) -> None:
        """The next transaction reads one state of the database throughout."""
        for level in (_REPEATABLE_READ, _SERIALIZABLE):
            if self._java.getMetaData().supportsTransactionIsolationLevel(level):
                self._java.setTransactionIsolation(level)
                return

    def commit(self) -> None:
        with _refusals():
            self._java.commit()

    def rollback(self) -> None:
        with _refusals():
            self._java.rollback()

    @contextmanager
    def _prepared(self, sql: str, values: tuple[str | int | None, ...]) -> Iterator[Any]:
        with _refusals():
            statement = self._java.prepareStatement(sql)
            try:
                for position, value in enumerate(values, 1):
                    _bind(statement, position, value)
                yield statement
            finally:
                statement.close()


def _bind(statement: Any, position: int, value: str | int | None) -> None:
    if value is None:
        statement.setNull(position, _VARCHAR)
    elif isinstance(value, int):
        statement.setLong(position, value)
    else:
        statement.setString(position, value)


@contextmanager
def _refusals() -> Iterator[None]:
    """Reports a database's refusal in its own words."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise PipelineError(f"the database refused: {short_text(error)}") from error
