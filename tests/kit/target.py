"""Chooses the broker that the client tests talk to.

`FLOODMARK_TEST_TARGET=kafka` runs the very same tests against Apache Kafka 4.3.0: a test that
fails there is wrong, whatever our broker answers.
"""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from kit.apache_kafka import kraft_broker
from kit.broker import Broker, floodmark_broker
from kit.tools import require_tool


def target_name() -> str:
    name = os.environ.get("FLOODMARK_TEST_TARGET", "floodmark")
    if name not in ("floodmark", "kafka"):
        raise ValueError(f"FLOODMARK_TEST_TARGET is {name!r}: use floodmark or kafka")
    return name


def broker_under_test(
    folder: Path, settings: Mapping[str, str] | None = None
) -> AbstractContextManager[Broker]:
    """The chosen broker on a free port, data in `folder`."""
    if target_name() == "kafka":
        require_tool("java", "mvn")
        return kraft_broker(folder, settings, heap="512m")
    return floodmark_broker(folder, settings)
