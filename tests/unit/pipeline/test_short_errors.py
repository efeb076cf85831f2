"""Spark's long traces, cut down to what an author needs."""

from floodmark.pipeline.errors import short_text

STACK = (
    "\tat org.apache.spark.X.y(X.scala:1)\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
)
CALL = "py4j.protocol.Py4JJavaError: An error occurred while calling o1.save."
TRACE = f"""Query [id = 1] terminated with exception: An exception was raised by the Python Proxy:
Traceback (most recent call last):
  File "/x/pyspark/sql/readwriter.py", line 1833, in save
    self._jwrite.save()
{CALL}
"""


def test_an_exception_of_java_in_a_batch_function_is_told_without_its_stack() -> None:
    text = f"{TRACE}: org.sqlite.SQLiteException: [SQLITE_BUSY] The file is locked\n{STACK}"
    assert short_text(RuntimeError(text)) == "SQLiteException: [SQLITE_BUSY] The file is locked"


def test_the_innermost_cause_counts() -> None:
    text = (
        f"{TRACE}: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in "
        "stage 1.0 failed 1 times, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (host "
        f"executor driver): java.lang.RuntimeException: wrapped\n{STACK}"
        f"Caused by: java.lang.IllegalStateException: the disk is full\n{STACK}\t... 5 more\n"
    )
    assert short_text(RuntimeError(text)) == "IllegalStateException: the disk is full"


def test_a_failed_task_is_told_by_its_own_exception() -> None:
    text = (
        f"{TRACE}: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in "
        "stage 1.0 failed 1 times, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (host "
        f"executor driver): org.postgresql.util.PSQLException: ERROR: no such column\n{STACK}\n"
        f"Driver stacktrace:\n{STACK}"
    )
    assert short_text(RuntimeError(text)) == "PSQLException: ERROR: no such column"
