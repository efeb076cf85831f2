"""The SQL that writes a batch to a database together with its mark. PURE.

Called by `jdbc_sink.py`. A batch's rows are in a staging table; one transaction merges them into
the target and records the batch. The marks table has a row per query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from floodmark.pipeline.errors import PipelineError

MARKS_TABLE = "floodmark_marks"
STAGE_PREFIX = "floodmark_stage_"
# Numbers the rows of a stage, so that a task that ran twice is noticed.
ROW_COLUMN = "floodmark_row"
# Databases whose upsert is `INSERT ... ON CONFLICT`, by the beginning of their address, with the
# classes of their drivers. Java does not find those of added jars by the address.
_ON_CONFLICT = {
    "jdbc:postgresql:": "org.postgresql.Driver",
    "jdbc:sqlite:": "org.sqlite.JDBC",
}


def quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def can_upsert(url: str) -> bool:
    return driver_of(url) is not None


def driver_of(url: str) -> str | None:
    found = [kind for prefix, kind in _ON_CONFLICT.items() if url.lower().startswith(prefix)]
    return found[0] if found else None


def has_one_writer(url: str) -> bool:
    """SQLite locks the whole file for a writer."""
    return url.lower().startswith("jdbc:sqlite:")


@dataclass(frozen=True)
class Statements:
    """The statements for one target. `table` is as the author wrote it, maybe with a schema."""

    table: str
    columns: Sequence[str]
    key_columns: Sequence[str] = ()

    def beside(self, name: str) -> str:
        """A table in the same schema as the target."""
        schema, dot, _ = self.table.rpartition(".")
        return f"{schema}{dot}{name}"

    @property
    def marks(self) -> str:
        return self.beside(MARKS_TABLE)

    def create_marks(self) -> str:
        return (
            f"CREATE TABLE IF NOT EXISTS {self.marks} (query VARCHAR(250) NOT NULL PRIMARY KEY, "
            "batch BIGINT NOT NULL, stage VARCHAR(100))"
        )

    def read_mark(self) -> str:
        return f"SELECT batch, stage FROM {self.marks} WHERE query = ?"

    def add_mark(self) -> str:
        return f"INSERT INTO {self.marks} (stage, batch, query) VALUES (?, ?, ?)"

    def name_stage(self) -> str:
        return f"UPDATE {self.marks} SET stage = ? WHERE batch = ? AND query = ?"

    def move_mark(self) -> str:
        """Affects no row if another run was faster."""
        return f"UPDATE {self.marks} SET batch = ? WHERE batch = ? AND query = ?"

    def create_table(self, columns: str) -> str:
        """`columns` are names and types, as Spark would choose them."""
        return f"CREATE TABLE {self.table} ({columns})"

    def create_stage(self, stage: str) -> str:
        number = f"CAST(0 AS BIGINT) AS {quoted(ROW_COLUMN)}"
        return (
            f"CREATE TABLE {stage} AS SELECT {self._columns}, {number} FROM {self.table} "
            "WHERE 1 = 0"
        )

    def drop(self, stage: str) -> str:
        return f"DROP TABLE IF EXISTS {stage}"

    def count_repeated_rows(self, stage: str) -> str:
        return f"SELECT COUNT(*) - COUNT(DISTINCT {quoted(ROW_COLUMN)}) FROM {stage}"

    def count_repeated_keys(self, stage: str) -> str:
        keys = _list(self.key_columns)
        return (
            f"SELECT COUNT(*) FROM (SELECT {keys} FROM {stage} GROUP BY {keys} "
            "HAVING COUNT(*) > 1) AS repeated"
        )

    def count_missing_keys(self, stage: str) -> str:
        is_missing = " OR ".join(f"{quoted(name)} IS NULL" for name in self.key_columns)
        return f"SELECT COUNT(*) FROM {stage} WHERE {is_missing}"

    def create_key(self, index: str) -> str:
        return f"CREATE UNIQUE INDEX {index} ON {self.table} ({_list(self.key_columns)})"

    def merge(self, stage: str) -> str:
        """Inserts the rows. With keys, they replace those that are there."""
        # SQLite needs the condition, to tell the ON of a conflict from that of a join.
        insert = (
            f"INSERT INTO {self.table} ({self._columns}) SELECT {self._columns} FROM {stage} "
            "WHERE 1 = 1"
        )
        if not self.key_columns:
            return insert
        others = [name for name in self.columns if name not in self.key_columns]
        assignments = ", ".join(f"{quoted(name)} = EXCLUDED.{quoted(name)}" for name in others)
        action = f"DO UPDATE SET {assignments}" if others else "DO NOTHING"
        return f"{insert} ON CONFLICT ({_list(self.key_columns)}) {action}"

    @property
    def _columns(self) -> str:
        return _list(self.columns)


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def check_mark(known: int | None, batch: int, first: int) -> bool:
    """Whether the batch is already written. Raises if that cannot be known.

    `known` is the last batch with a mark, `first` the first one that needs no mark before it.
    """
    if known is None and batch <= first:
        return False
    if known is None or known < batch - 1:
        seen = "the database has no mark" if known is None else f"its last mark is of batch {known}"
        raise PipelineError(
            f"batch {batch} cannot be written exactly once: {seen}, so it is unknown what was "
            "written since. Was the table moved to another database? Compare it with the input, "
            f"then continue with first_exact_batch={batch}"
        )
    if known > batch:
        raise PipelineError(
            f"batch {batch} was to be written, but batch {known} already was: the checkpoint is "
            "older than the database. Restore the newer checkpoint, or replay the output"
        )
    return known == batch
