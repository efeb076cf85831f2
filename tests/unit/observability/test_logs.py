"""Log lines in both forms."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

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
    with pytest.raises(ValueError, match="is not known"):
        configure_logging(log_format, log_level)
