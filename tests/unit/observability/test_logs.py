"""Log lines in both forms."""

import io
import json
import logging
import os
from collections.abc import Iterator

import pytest

from floodmark.observability import logs
from floodmark.observability.logs import configure_logging


@pytest.fixture(autouse=True)
def root_logger_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_plain_line_says_when_how_bad_where_and_what() -> None:
    stream = io.StringIO()
    configure_logging("plain", "info", stream)
    logging.getLogger("floodmark.network.connection").warning("closing %s", "a")
    line = stream.getvalue()
    assert line.endswith(" WARNING network.connection: closing a\n")
    assert line[:2] == "20"


def test_a_line_break_from_outside_cannot_forge_a_line() -> None:
    stream = io.StringIO()
    configure_logging("plain", "info", stream)
    logging.getLogger("floodmark.x").error("topic %s", "a\nERROR forged")
    assert stream.getvalue().count("\n") == 1


def test_a_json_line_is_one_object_even_with_an_exception() -> None:
    stream = io.StringIO()
    configure_logging("json", "info", stream)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("floodmark.x").exception("it\nfailed")
    (line,) = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert entry["level"] == "error"
    assert entry["logger"] == "floodmark.x"
    assert entry["message"] == "it\nfailed"
    assert "ValueError: broken" in entry["exception"]


def test_the_level_holds_back_what_lies_below() -> None:
    stream = io.StringIO()
    configure_logging("plain", "WARNING", stream)
    logging.getLogger("floodmark.x").info("quiet")
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("log_format", "log_level"), [("xml", "info"), ("plain", "loud")])
def test_unknown_choices_are_refused(log_format: str, log_level: str) -> None:
    with pytest.raises(ValueError, match="unknown log"):
        configure_logging(log_format, log_level)


def test_a_reader_that_stands_still_costs_lines_and_does_not_stop_who_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "PATIENCE_MS", 1)
    reading, writing = os.pipe()
    logger = logging.Logger("stalled")
    with open(reading, "rb", buffering=0) as reader, open(writing, "w") as stream:
        handler = logs.LossyHandler(stream)
        handler.setFormatter(logs.PlainFormatter())
        logger.addHandler(handler)
        for number in range(3000):
            logger.error("line %d %s", number, "x" * 100)
        logger.error("y" * 100_000)
        os.set_blocking(reading, False)
        told = b""
        while (piece := reader.read(1 << 20)) is not None:
            told += piece
        logger.error("back")
        told += reader.read(1 << 20) or b""
    lines = told.decode().splitlines()
    assert "line 0 " in lines[0]
    assert len(lines) < 3000
    assert "lines are missing here" in lines[-2]
    assert lines[-1].endswith("back")
