"""What `--property` does is what it does in Kafka's console tools."""

import click
import pytest

from floodmark.cli.console_properties import ConsoleReader, console_formatter
from floodmark.cli.record_json import Outgoing
from floodmark.client.cluster.view import TopicPartition
from floodmark.records.record import Record

T3 = TopicPartition("t", 3)
RECORD = Record(42, 1_700_000_000_000, b"key", None, [("a", b"1"), ("b", None)])


@pytest.mark.parametrize(
    ("properties", "line", "expected"),
    [
        ([], b"k\tv", Outgoing(None, b"k\tv", [])),
        (["parse.key=true"], b"k\tv\tw", Outgoing(b"k", b"v\tw", [])),
        (["parse.key=true", "key.separator=:"], b"k:v", Outgoing(b"k", b"v", [])),
        (["parse.key=true", "key.separator= "], b"k v", Outgoing(b"k", b"v", [])),
        (["parse.key=true", "ignore.error=true"], b"v", Outgoing(None, b"v", [])),
        (["parse.headers=true"], b"a:1,b:2\tv", Outgoing(None, b"v", [("a", b"1"), ("b", b"2")])),
        (
            ["parse.headers=TRUE", "parse.key=true", "null.marker=NULL"],
            b"a:NULL\tNULL\tNULL",
            Outgoing(None, None, [("a", None)]),
        ),
        (["parse.headers=true", "null.marker=NULL"], b"NULL\tv", Outgoing(None, b"v", [])),
        (["parse.headers=true", "ignore.error=true"], b"a\tv", Outgoing(None, b"v", [("a", None)])),
    ],
)
def test_lines_are_read_as_by_the_console_producer(
    properties: list[str], line: bytes, expected: Outgoing
) -> None:
    assert ConsoleReader.from_properties(properties)(line) == expected


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        (["parse.key=true"], b"v"),
        (["parse.headers=true"], b"v"),
        (["parse.headers=true"], b"a\tv"),
        (["parse.headers=true"], b"\tv"),
    ],
)
def test_a_line_without_its_marks_is_refused(properties: list[str], line: bytes) -> None:
    with pytest.raises(click.ClickException, match="found in"):
        ConsoleReader.from_properties(properties)(line)


def test_a_separator_behind_the_last_header_is_passed_over() -> None:
    outgoing = ConsoleReader.from_properties(["parse.headers=true"])(b"a:1,,\tv")
    assert outgoing.headers == [("a", b"1")]


def test_a_header_cannot_have_the_null_marker_as_its_key() -> None:
    reader = ConsoleReader.from_properties(["parse.headers=true", "null.marker=N"])
    with pytest.raises(click.ClickException, match="null marker"):
        reader(b"N:1\tv")


@pytest.mark.parametrize(
    "properties",
    [
        ["headers.separator=:"],
        ["headers.delimiter=,"],
        ["headers.key.separator=\\t"],
        ["null.marker=;", "key.separator=;"],
        ["null.marker=,"],
    ],
)
def test_two_marks_that_are_the_same_are_refused(properties: list[str]) -> None:
    with pytest.raises(click.UsageError, match="must differ"):
        ConsoleReader.from_properties(properties)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ([], b"null\n"),
        (["print.key=true"], b"key\tnull\n"),
        (["print.key=true", "print.value=false"], b"key\n"),
        (["print.value=false"], b""),
        (["print.key=true", "key.separator=|", "null.literal=", "line.separator=;"], b"key|;"),
        (
            [f"print.{name}=true" for name in ("headers", "offset", "partition", "timestamp")],
            b"CreateTime:1700000000000\tPartition:3\tOffset:42\ta:1,b:null\tnull\n",
        ),
    ],
)
def test_records_are_written_as_by_the_console_consumer(
    properties: list[str], expected: bytes
) -> None:
    assert console_formatter(properties)(T3, RECORD) == expected


def test_a_record_without_headers_and_time_says_so() -> None:
    formatter = console_formatter(["print.headers=true", "print.timestamp=true"])
    assert formatter(T3, Record(0, -1, None, b"v", [])) == b"NO_TIMESTAMP\tNO_HEADERS\tv\n"


@pytest.mark.parametrize("text", ["print.nothing=true", "print.key"])
def test_what_is_not_known_is_refused_by_name(text: str) -> None:
    with pytest.raises(click.UsageError, match="print"):
        console_formatter([text])
