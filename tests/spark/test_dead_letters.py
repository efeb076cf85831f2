"""Records that do not parse: the reason and column, their way to the topic, and their way back."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from floodmark.cli.commands.pipeline_dead_letters import dead_letters
from floodmark.client.consumer.consumer import ConsumerRecord
from floodmark.pipeline.authoring.checkpoints import open_checkpoint
from floodmark.pipeline.authoring.loading import load_pipeline
from floodmark.pipeline.authoring.runner import Runner
from kit.broker import Broker
from kit.topics import fill_topic, make_topic, read_topic

FILE = """from floodmark.pipeline import Pipeline
pipeline = Pipeline("letters")
pipeline.source("orders", topic="{topic}", dead_letters="{topic}-dead",
                schema="id STRING NOT NULL, amount DOUBLE, place STRUCT<city: STRING, zip: INT>")
pipeline.source("lines", topic="{topic}-csv", dead_letters="{topic}-dead", format="csv",
                schema="id STRING, amount DOUBLE")
pipeline.lookup("prices", topic="{topic}-prices", key="id", dead_letters="{topic}-dead",
                schema="id STRING, price DOUBLE")

@pipeline.sink(topic="{topic}-out", key="id")
def priced(orders, prices):
    return orders.join(prices, "id", "left").select("id", "amount", "price")

@pipeline.sink(format="noop")
def other(lines):
    return lines
"""
GOOD = b'{"id":"a","amount":1}'
BAD_ORDERS = {
    b"text": (b"river", "it is not valid JSON", None),
    b"open": (b'{"id":"a"', "it is not valid JSON", None),
    b"two": (GOOD + b" " + GOOD, "it is not exactly one JSON document", None),
    b"list": (b"[1]", "it is not a JSON object", None),
    b"type": (b'{"id":"a","amount":"much"}', "column amount is not double: much", "amount"),
    b"nested": (b'{"id":"a","place":{"zip":"x"}}', "column place is not struct<", "place"),
    b"null": (b'{"amount":2}', "column id is missing or null, but declared NOT NULL", "id"),
    b"bytes": (b'{"id":"\xff"}', "it is not valid UTF-8", None),
    b"tombstone": (None, "it is null (a tombstone)", None),
}
BAD_LINES = {
    b"empty": (b"", "it is empty", None),
    b"short": (b"a", "it does not have exactly 2 columns", None),
    b"amount": (b"a,much", "column amount is not double: much", "amount"),
}


@pytest.fixture(scope="module")
def ran(
    spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Broker, str]:
    folder, topic = tmp_path_factory.mktemp("letters"), "letters"
    for name in ("", "-csv", "-prices", "-dead", "-out"):
        make_topic(broker.bootstrap, topic + name, partitions=2 if not name else 1)
    headers = [("trace", b"7"), ("floodmark.error", b"an earlier one")]
    orders = [(key, value) for key, (value, _, _) in BAD_ORDERS.items()]
    fill_topic(broker.bootstrap, topic, orders, headers=headers, timestamp_ms=1_000)
    fill_topic(broker.bootstrap, topic, [(b"good", GOOD)])
    lines = [(key, value) for key, (value, _, _) in BAD_LINES.items()]
    fill_topic(broker.bootstrap, f"{topic}-csv", [*lines, (None, b"a,1")])
    prices = [(b"a", b'{"id":"a","price":2}'), (b"b", b'{"id":"b","price":"?"}'), (b"c", None)]
    fill_topic(broker.bootstrap, f"{topic}-prices", prices)
    path = folder / "pipeline.py"
    path.write_text(FILE.format(topic=topic))
    pipeline = load_pipeline(path)
    checkpoint = open_checkpoint(folder / "checkpoint", pipeline.name, broker.bootstrap)
    Runner(spark, pipeline, bootstrap_server=broker.bootstrap, checkpoint=checkpoint).run(once=True)
    return broker, topic


def letters_of(ran: tuple[Broker, str], source: str) -> dict[bytes, ConsumerRecord]:
    broker, topic = ran
    found = read_topic(broker.bootstrap, f"{topic}-dead")
    return {
        record.key or b"": record
        for record in found
        if dict(record.headers)["floodmark.source"] == source.encode()
    }


def test_a_dead_letter_says_the_reason_and_the_column(ran: tuple[Broker, str]) -> None:
    for source, bad in (("orders", BAD_ORDERS), ("lines", BAD_LINES)):
        letters = letters_of(ran, source)
        assert letters.keys() == bad.keys()
        for key, (value, reason, column) in bad.items():
            headers = dict(letters[key].headers)
            assert letters[key].value == value
            assert reason in (headers["floodmark.error"] or b"").decode(), key
            assert headers.get("floodmark.column") == (column.encode() if column else None), key


def test_a_dead_letter_keeps_headers_and_place(ran: tuple[Broker, str]) -> None:
    letter = letters_of(ran, "orders")[b"type"]
    names = [name for name, _ in letter.headers]
    assert names[0] == "trace"
    assert names.count("floodmark.error") == 1
    headers = dict(letter.headers)
    assert headers["floodmark.timestamp"] == b"1000"
    origin = {(r.partition, r.offset): r.key for r in read_topic(ran[0].bootstrap, ran[1])}
    place = (int(headers["floodmark.partition"] or b""), int(headers["floodmark.offset"] or b""))
    assert origin[place] == b"type"


def test_a_lookup_has_dead_letters_and_does_without_them(ran: tuple[Broker, str]) -> None:
    assert letters_of(ran, "prices").keys() == {b"b"}
    (row,) = read_topic(ran[0].bootstrap, f"{ran[1]}-out")
    assert json.loads(row.value or b"") == {"amount": 1.0, "price": 2.0}


def run_cli(ran: tuple[Broker, str], command: str, *arguments: str) -> str:
    options = ["--bootstrap-server", ran[0].bootstrap]
    outcome = CliRunner().invoke(dead_letters, [command, f"{ran[1]}-dead", *arguments, *options])
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_show_filters_by_column_reason_source_and_key(ran: tuple[Broker, str]) -> None:
    def keys(*arguments: str) -> list[str]:
        found = json.loads(run_cli(ran, "show", *arguments, "-o", "json"))
        return sorted(letter["key"] for letter in found)

    assert keys("--column", "amount") == ["amount", "type"]
    assert keys("--reason", "VALID json") == ["open", "text"]
    assert keys("--source", "prices") == ["b"]
    assert keys("--key", "null", "--origin", ran[1]) == ["null"]
    assert "column amount is not double: much" in run_cli(ran, "show", "--key", "type")


def test_a_redrive_sends_each_record_back_once(ran: tuple[Broker, str], tmp_path: Path) -> None:
    broker, topic = ran
    before = len(read_topic(broker.bootstrap, topic))
    wanted = ("--column", "amount", "--source", "orders")
    assert f"1 record would be sent to {topic}" in run_cli(ran, "redrive", *wanted, "--dry-run")
    assert len(read_topic(broker.bootstrap, topic)) == before
    output = run_cli(ran, "redrive", *wanted, "--rate", "50")
    assert f"1 record sent to {topic}\n" in output
    assert re.search(r"12 records did not match", output)
    records = read_topic(broker.bootstrap, topic)
    (first, again) = [record for record in records if record.key == b"type"]
    assert len(records) == before + 1
    assert (again.value, again.partition, again.timestamp) == (first.value, first.partition, 1_000)
    assert again.headers == [("trace", b"7")]
    assert "no matching dead letters" in run_cli(ran, "redrive")
    output = run_cli(ran, "redrive", "--from-beginning", "--to", f"{topic}-out", "--max", "3")
    assert f"3 records sent to {topic}-out" in output
