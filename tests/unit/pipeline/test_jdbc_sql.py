"""The SQL of exactly-once batches, run on SQLite itself."""

import sqlite3

import pytest

from floodmark.pipeline.authoring.jdbc_sql import Statements, check_mark
from floodmark.pipeline.errors import PipelineError


@pytest.fixture
def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute('CREATE TABLE stock (id TEXT, "left over" INTEGER, note TEXT)')
    return connection


def statements() -> Statements:
    return Statements("stock", ["id", "left over"], ["id"])


def staged(database: sqlite3.Connection, rows: list[tuple[str | None, int]]) -> None:
    database.execute(statements().create_stage("s"))
    numbered = [(*row, number) for number, row in enumerate(rows)]
    database.executemany("INSERT INTO s VALUES (?, ?, ?)", numbered)


def test_rows_with_a_known_key_replace_its_columns_and_others_are_added(
    database: sqlite3.Connection,
) -> None:
    database.execute("CREATE UNIQUE INDEX k ON stock (id)")
    database.execute("INSERT INTO stock VALUES ('a', 1, 'kept')")
    staged(database, [("a", 2), ("b", 3)])
    database.execute(statements().merge("s"))
    rows = database.execute("SELECT * FROM stock ORDER BY id").fetchall()
    assert rows == [("a", 2, "kept"), ("b", 3, None)]


def test_without_a_key_all_rows_are_added(database: sqlite3.Connection) -> None:
    plain = Statements("stock", ["id", "left over"])
    staged(database, [("a", 1), ("a", 1)])
    database.execute(plain.merge("s"))
    assert database.execute("SELECT COUNT(*) FROM stock").fetchone() == (2,)


def test_missing_and_repeated_keys_are_counted(database: sqlite3.Connection) -> None:
    staged(database, [("a", 1), ("a", 2), ("b", 3), (None, 4)])
    sql = statements()
    assert database.execute(sql.count_repeated_keys("s")).fetchone() == (1,)
    assert database.execute(sql.count_missing_keys("s")).fetchone() == (1,)


def test_rows_of_a_task_that_ran_twice_are_counted(database: sqlite3.Connection) -> None:
    staged(database, [("a", 1), ("a", 1)])
    count = statements().count_repeated_rows("s")
    assert database.execute(count).fetchone() == (0,)
    database.execute("INSERT INTO s SELECT * FROM s")
    assert database.execute(count).fetchone() == (2,)


def test_a_mark_moves_only_from_the_batch_before(database: sqlite3.Connection) -> None:
    sql = statements()
    database.execute(sql.create_marks())
    database.execute(sql.add_mark(), (None, 6, "q"))
    assert database.execute(sql.move_mark(), (7, 5, "q")).rowcount == 0
    assert database.execute(sql.move_mark(), (7, 6, "q")).rowcount == 1
    assert database.execute(sql.read_mark(), ("q",)).fetchone() == (7, None)


def test_marks_and_stages_are_in_the_schema_of_the_table() -> None:
    sql = Statements("shop.stock", ["id"])
    assert sql.marks == "shop.floodmark_marks"
    assert sql.beside("s") == "shop.s"


@pytest.mark.parametrize(
    ("known", "batch", "is_written"), [(None, 0, False), (4, 5, False), (5, 5, True)]
)
def test_a_batch_is_written_if_its_mark_says_so(
    known: int | None, batch: int, is_written: bool
) -> None:
    assert check_mark(known, batch, 0) is is_written


@pytest.mark.parametrize(
    ("known", "batch", "message"),
    [
        (None, 5, "no mark.*first_exact_batch=5"),
        (3, 5, "last mark is of batch 3"),
        (6, 5, "checkpoint is older than the database"),
    ],
)
def test_a_gap_between_marks_and_batches_is_refused(
    known: int | None, batch: int, message: str
) -> None:
    with pytest.raises(PipelineError, match=message):
        check_mark(known, batch, 0)


def test_the_author_may_accept_a_gap() -> None:
    assert check_mark(None, 5, 5) is False
