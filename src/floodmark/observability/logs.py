"""Formats log lines for people or machines. Called once by `broker.main`, before anything else.

Each record is one line: line breaks in messages are escaped, so that a client cannot forge lines
with the names it sends. Only our own tracebacks take several lines, and not in JSON.
"""

from __future__ import annotations

import json
import logging
import select
import sys
from datetime import UTC, datetime
from typing import TextIO

FORMATS = ("plain", "json")
LEVELS = ("debug", "info", "warning", "error")
PATIENCE_MS = 100
"""How long a line waits for its reader. Later lines do not wait until there is room again."""

# A pipe with room takes this much without blocking (PIPE_BUF, in the longest UTF-8).
_PIECE_LETTERS = 1024


def configure_logging(log_format: str, log_level: str, stream: TextIO | None = None) -> None:
    """Sends all records of this process to `stream` (standard error by default)."""
    if log_format not in FORMATS:
        raise ValueError(f"unknown log format {log_format!r}: use {' or '.join(FORMATS)}")
    if log_level.lower() not in LEVELS:
        raise ValueError(f"unknown log level {log_level!r}: use one of {', '.join(LEVELS)}")
    handler = LossyHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else PlainFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(log_level.upper())
    # At debug level asyncio logs its selector, which is of no use here.
    logging.getLogger("asyncio").setLevel(logging.WARNING)


class LossyHandler(logging.StreamHandler[TextIO]):
    """Drops lines that nobody reads. If a pipe's reader stalls, or a terminal is stopped with
    Ctrl-S, a write would block, and with it all clients of the broker."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lost = 0
        self._room: select.poll | None = None
        try:
            number = stream.fileno()
        except (OSError, ValueError):
            return  # An in-memory stream.
        self._room = select.poll()
        self._room.register(number, select.POLLOUT)

    def emit(self, record: logging.LogRecord) -> None:
        if not self._has_room(0 if self._lost else PATIENCE_MS):
            self._lost += 1
            return
        try:
            if self._lost:
                self.stream.write(self.format(_about_lost(self._lost)) + self.terminator)
                self._lost = 0
            text = self.format(record) + self.terminator
            for start in range(0, len(text), _PIECE_LETTERS):
                if start and not self._has_room(PATIENCE_MS):
                    self._lost += 1
                    break
                self.stream.write(text[start : start + _PIECE_LETTERS])
                self.stream.flush()
        except Exception:  # noqa: BLE001 - like every logging handler
            self.handleError(record)

    def _has_room(self, patience_ms: int) -> bool:
        return self._room is None or bool(self._room.poll(patience_ms))


class PlainFormatter(logging.Formatter):
    """`2026-01-31 12:00:00.123 WARNING network.connection: closing ...`"""

    def format(self, record: logging.LogRecord) -> str:
        line = (
            f"{_time(record):%Y-%m-%d %H:%M:%S}.{int(record.msecs):03d} {record.levelname} "
            f"{_area(record)}: {_one_line(record.getMessage())}"
        )
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


class JsonFormatter(logging.Formatter):
    """One object per line: time, level, logger, message, and exception if any."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _about_lost(lines: int) -> logging.LogRecord:
    told = {"msg": "%d lines are missing here: nobody read them in time", "args": (lines,)}
    return logging.makeLogRecord(
        {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING", **told}
    )


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _area(record: logging.LogRecord) -> str:
    return record.name.removeprefix("floodmark.")


def _one_line(text: str) -> str:
    return text.replace("\r", "\\r").replace("\n", "\\n")
