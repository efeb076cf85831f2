"""Every value is either a row as it was written or a dead letter; none is changed or dropped."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from floodmark.pipeline.authoring.checkpoints import open_checkpoint
from floodmark.pipeline.authoring.loading import load_pipeline
from floodmark.pipeline.authoring.runner import Runner
from kit.broker import Broker
from kit.topics import KeyValue, fill_topic, make_topic, read_topic

SOURCE = """from floodmark.pipeline import Pipeline
pipeline = Pipeline("values")
pipeline.source(
    "rows", topic="{topic}", format="{format}", schema="{schema}", metadata=True,
    dead_letters="{topic}-dead",
)
@pipeline.sink(topic="{topic}-out")
def out(rows):
    return rows.withColumnRenamed("_offset", "at").drop("_topic", "_partition", "_timestamp")
"""
JOIN = """from floodmark.pipeline import Pipeline
pipeline = Pipeline("join")
pipeline.source("rows", topic="{topic}", schema="id STRING")
pipeline.lookup("names", topic="{topic}-names", key="id", schema="id STRING, name STRING")
@pipeline.sink(topic="{topic}-out", key="id")
def out(rows, names):
    return rows.join(names, "id", "left")
"""

JSON_VALUES: list[tuple[bytes | None, dict[str, object] | None]] = [
    (b'{"id": "plain", "n": 1}', {"id": "plain", "n": 1}),
    (b' {"id": "spaces"} \n', {"id": "spaces"}),
    (b'{"id": "more", "deep": {"x": [1, 2]}}', {"id": "more"}),
    (b"{}", {}),
    ('{"id": "öl"}'.encode(), {"id": "öl"}),
    (b'{"id": "\xff"}', None),
    (b'{"id": "first"}{"id": "second"}', None),
    (b'{"id": "first"}\n{"id": "second"}', None),
    (b'{"id": "first"},{"id": "second"}', None),
    (b'{"id": "first"},"x": {"lost": 2}', None),
    (b'{"id": "first"},"value": {"id": "second"}', None),
    (b'{"id": "first"}, "end": true} garbage', None),
    (b'{"id": "first"}, "end": true, "value": null', None),
    (b'null, "value": {"id": "second"}', None),
    (b'{"id": "first"}], "x": [{"id": "second"}', None),
    (b'{"id": "}", "value": {"x": 1}, "end": [{}, "]"]} ', {"id": "}"}),
    (b'{"id": "brace"}}', None),
    (b'{"id": "garbage"} garbage', None),
    (b'[{"id": "list"}]', None),
    (b'{"id": "type", "n": "one"}', None),
    (b'{"id": "wide", "n": 99999999999}', None),
    (b'{"id": "cut', None),
    (b"null", None),
    (b"5", None),
    (b"", None),
    (None, None),
]
CSV_VALUES: list[tuple[bytes | None, dict[str, object] | None]] = [
    (b"plain,1", {"id": "plain", "n": 1}),
    (b'"a,b",1', {"id": "a,b", "n": 1}),
    (b",", {}),
    (b"short", None),
    (b"long,1,2", None),
    (b"type,one", None),
    (b'"open,1', None),
    (b"first,1\nsecond,2", None),
    (b"\xff,1", None),
    (b"", None),
    (None, None),
]


def run(spark: SparkSession, broker: Broker, folder: Path, text: str) -> None:
    (folder / "pipeline.py").write_text(text)
    pipeline = load_pipeline(folder)
    checkpoint = open_checkpoint(folder / "checkpoint", pipeline.name, broker.bootstrap)
    Runner(spark, pipeline, bootstrap_server=broker.bootstrap, checkpoint=checkpoint).run(once=True)


REQUIRED_VALUES: list[tuple[bytes | None, dict[str, object] | None]] = [
    (b'{"id": "there", "a.b": 1}', {"id": "there", "a.b": 1}),
    (b'{"id": "missing"}', None),
    (b'{"id": "null", "a.b": null}', None),
]
NESTED_VALUES: list[tuple[bytes | None, dict[str, object] | None]] = [
    (b'{"a": {"b": [1, 2], "c": {"k": 3}}}', {"a": {"b": [1, 2], "c": {"k": 3}}}),
    (b'{"a": {"b": [1, "two"]}}', None),
    (b'{"a": {"b": [1], "c": {"k": "three"}}}', None),
    (b'{"a": {"b": 1}}', None),
    (b'{"a": "text"}', None),
    (b'{"a": null}', {}),
]


@pytest.mark.parametrize(
    ("name", "schema", "values"),
    [
        ("json", "id STRING, n INT", JSON_VALUES),
        ("csv", "id STRING, n INT", CSV_VALUES),
        ("json", "id STRING, `a.b` INT NOT NULL", REQUIRED_VALUES),
        ("json", "a STRUCT<b: ARRAY<INT>, c: MAP<STRING, INT>>", NESTED_VALUES),
    ],
)
def test_a_value_is_a_row_or_a_dead_letter(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    name: str,
    schema: str,
    values: list[tuple[bytes | None, dict[str, object] | None]],
) -> None:
    for suffix in ("", "-out", "-dead"):
        make_topic(broker.bootstrap, topic + suffix)
    fill_topic(broker.bootstrap, topic, [(None, value) for value, _ in values])
    text = SOURCE.format(topic=topic, format=name, schema=schema)
    run(spark, broker, tmp_path, text)
    rows = [json.loads(r.value or b"") for r in read_topic(broker.bootstrap, f"{topic}-out")]
    letters = read_topic(broker.bootstrap, f"{topic}-dead")
    found: dict[int, object] = {row.pop("at"): row for row in rows}
    assert len(found) == len(rows)
    for letter in letters:
        offset = int(dict(letter.headers)["floodmark.offset"] or b"")
        assert letter.value == values[offset][0]
        assert offset not in found
        found[offset] = None
    assert [found[offset] for offset in range(len(values))] == [row for _, row in values]


def test_the_last_record_of_a_key_counts_however_it_is_dated(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    for suffix in ("", "-names", "-out"):
        make_topic(broker.bootstrap, topic + suffix)
    old: list[KeyValue] = [(k, b'{"id":"%s","name":"old"}' % k) for k in (b"changed", b"gone")]
    new: list[KeyValue] = [(b"changed", b'{"id":"changed","name":"new"}'), (b"gone", None)]
    fill_topic(broker.bootstrap, f"{topic}-names", old, timestamp_ms=1_700_000_000_000)
    fill_topic(broker.bootstrap, f"{topic}-names", new, timestamp_ms=1_600_000_000_000)
    fill_topic(broker.bootstrap, topic, [(None, b'{"id":"changed"}'), (None, b'{"id":"gone"}')])
    run(spark, broker, tmp_path, JOIN.format(topic=topic))
    rows = {r.key: r.value for r in read_topic(broker.bootstrap, f"{topic}-out")}
    assert rows == {b"changed": b'{"name":"new"}', b"gone": b"{}"}
