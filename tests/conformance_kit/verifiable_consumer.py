"""Kafka's VerifiableConsumer as a running process; its events are JSON lines.

Called by tests/conformance/java and tests/clients/groups.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from kit.apache_kafka import tool_command
from kit.jars import KAFKA_4
from kit.process import ServerProcess

_MAIN = "org.apache.kafka.tools.VerifiableConsumer"


class VerifiableConsumer:
    """One member of a group. SIGTERM lets it leave in order, kill does not."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        log_path: Path,
        *options: str,
        version: str = KAFKA_4,
    ) -> None:
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group]
        command = tool_command(version, _MAIN, *arguments, "--verbose", *options)
        self.process = ServerProcess(command, log_path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.process.kill()

    def leave(self) -> None:
        self.process.stop()
        assert any(event["name"] == "shutdown_complete" for event in self.events())

    def events(self) -> Iterator[dict[str, Any]]:
        for line in self.process.output().splitlines():
            # A last line may still be half written; the logging of the client is not JSON.
            if line.startswith("{") and line.endswith("}"):
                yield json.loads(line)

    def owned(self) -> set[int]:
        """The partitions it was given and not asked back: eager and cooperative alike."""
        owned: set[int] = set()
        for event in self.events():
            partitions = {at["partition"] for at in event.get("partitions", ())}
            if event["name"] == "partitions_assigned":
                owned |= partitions
            elif event["name"] == "partitions_revoked":
                owned -= partitions
        return owned

    def consumed(self) -> Counter[tuple[int, int]]:
        """How often each (partition, offset) was handed to it."""
        records = (event for event in self.events() if event["name"] == "record_data")
        return Counter((record["partition"], record["offset"]) for record in records)

    def values(self) -> Iterator[tuple[tuple[int, int], str]]:
        """Each (partition, offset) that was handed to it, with the value."""
        for event in self.events():
            if event["name"] == "record_data":
                yield (event["partition"], event["offset"]), event["value"]

    def failed_commits(self) -> list[dict[str, Any]]:
        commits = (event for event in self.events() if event["name"] == "offsets_committed")
        return [commit for commit in commits if not commit["success"]]
