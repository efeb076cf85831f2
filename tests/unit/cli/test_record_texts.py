"""Records as text: formats, JSON, lines, and places in a topic."""

import json
import os
from pathlib import Path

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floodmark.cli.format import compile_format, unescape
from floodmark.cli.lines import read_pieces
from floodmark.cli.record_json import record_from_json, record_to_json, record_to_kcat_json
from floodmark.cli.sending import LineParser
from floodmark.cli.start_at import Origin, StartAt, parse_offset, parse_time
from floodmark.client.cluster.view import TopicPartition
from floodmark.records.record import Record

T3 = TopicPartition("t", 3)
RECORD = Record(42, 1_700_000_000_000, b"key", b"value", [("a", b"1"), ("b", None)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%t [%p] at %o: %k=%s\\n", b"t [3] at 42: key=value\n"),
        ("%T %h %S %K %%", b"1700000000000 a=1,b= 5 3 %"),
        ("%R", b"\0\0\0\5"),
        ("\\x41\\t\\\\", b"A\t\\"),
    ],
)
def test_formats_are_kcats(text: str, expected: bytes) -> None:
    assert compile_format(text)(T3, RECORD) == expected


def test_a_header_name_that_is_no_text_is_shown_as_it_is_and_replaced_in_json() -> None:
    record = Record(0, 0, b"k", b"v", [(b"caf\xe9".decode(errors="surrogateescape"), b"1")])
    assert compile_format("%h")(T3, record) == b"caf\xe9=1"
    assert json.loads(record_to_json(T3, record))["headers"] == [["caf\ufffd", "1"]]
    assert json.loads(record_to_kcat_json(T3, record))["headers"] == ["caf\ufffd", "1"]


def test_a_missing_key_or_value_is_empty_or_a_word() -> None:
    nothing = Record(0, 0, None, None, [])
    assert compile_format("%k|%s|%S|%K")(T3, nothing) == b"||-1|-1"
    assert compile_format("%k|%s", null=b"NULL")(T3, nothing) == b"NULL|NULL"


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(click.UsageError, match="%z"):
        compile_format("%z")


def test_delimiters_may_be_escaped() -> None:
    assert unescape("a\\t\\x01ü") == b"a\t\x01" + "ü".encode()


@settings(deadline=None)
@given(
    key=st.none() | st.binary(),
    value=st.none() | st.binary(),
    headers=st.lists(st.tuples(st.text(), st.none() | st.binary()), max_size=3),
)
def test_what_consume_prints_as_json_produce_reads_back(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    line = record_to_json(T3, Record(7, 99, key, value, headers))
    assert record_from_json(line) == (key, value, headers, 3, 99)


def test_json_values_that_are_not_text_are_sent_in_their_json_form() -> None:
    outgoing = record_from_json(b'{"value": {"a": [1, 2]}, "headers": {"h": "x"}}')
    assert outgoing.value == b'{"a":[1,2]}'
    assert outgoing.headers == [("h", b"x")]


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b"{",
        b'{"key": {"base64": "?"}}',
        b'{"headers": [1]}',
        b'{"partition": "0"}',
        b'{"partition": -1}',
        b'{"partition": true}',
        b'{"timestamp": 1.5}',
        b'{"timestamp": 9223372036854775808}',
        b'{"value": ' + b"[" * 100_000,
    ],
)
def test_lines_that_are_no_records_are_refused(line: bytes) -> None:
    with pytest.raises(click.ClickException, match="not a JSON record"):
        record_from_json(line)


def test_kcats_envelope_has_kcats_names() -> None:
    document = json.loads(record_to_kcat_json(T3, RECORD))
    assert document["payload"] == "value"
    assert document["ts"] == RECORD.timestamp
    assert document["headers"] == ["a", "1", "b", None]


def test_a_line_is_cut_into_key_and_value_at_the_first_separator() -> None:
    parse = LineParser(key_separator=b":", headers=[("h", b"x")])
    assert parse(b"k:v:w") == (b"k", b"v:w", [("h", b"x")], None, None)
    assert parse(b"no key").key is None


def test_markers_and_empty_texts_may_stand_for_null() -> None:
    assert LineParser(key_separator=b":", null_marker=b"-")(b"k:-").value is None
    assert LineParser(key_separator=b":", empty_is_null=True)(b"k:").value is None
    assert LineParser(key_separator=b":")(b"k:").value == b""


async def read_all(descriptor: int, delimiter: bytes = b"\n") -> list[bytes]:
    return [piece async for pieces in read_pieces(descriptor, delimiter) for piece in pieces]


async def test_files_are_cut_at_the_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n\nb\nlast without newline")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert await read_all(descriptor) == [b"a", b"", b"b", b"last without newline"]
    finally:
        os.close(descriptor)


async def test_pipes_are_read_as_they_come() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"a;;b;")
    os.close(writer)
    try:
        assert await read_all(reader, b";;") == [b"a", b"b;"]
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", StartAt(Origin.BEGINNING)),
        ("earliest", StartAt(Origin.BEGINNING)),
        ("end", StartAt(Origin.END)),
        ("17", StartAt(Origin.OFFSET, 17)),
        ("-5", StartAt(Origin.BEFORE_END, 5)),
        ("s@1700", StartAt(Origin.TIME, 1700)),
    ],
)
def test_offsets_are_written_as_with_kcat(text: str, expected: StartAt) -> None:
    assert parse_offset(text) == expected


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("1970-01-01T00:00:01+00:00", 1_000),
        ("1970-01-01T00:00:01.500", 1_500),
        ("10m", 10_000_000 - 600_000),
        ("-1.5h", 10_000_000 - 5_400_000),
        ("2s ago", 10_000_000 - 2_000),
    ],
)
def test_times_are_dates_milliseconds_or_durations(text: str, expected_ms: int) -> None:
    assert parse_time(text, now_ms=10_000_000) == StartAt(Origin.TIME, expected_ms)


def test_an_age_beyond_1970_means_the_first_record() -> None:
    assert parse_time("99999d", now_ms=10_000_000) == StartAt(Origin.TIME, 0)
