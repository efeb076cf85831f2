"""Kafka's VerifiableProducer as a running process; its events are JSON lines.

Called by tests/conformance/java.
"""

import json
from pathlib import Path
from typing import Self

from kit.apache_kafka import tool_command
from kit.jars import KAFKA_4
from kit.process import ServerProcess

_MAIN = "org.apache.kafka.tools.VerifiableProducer"


class VerifiableProducer:
    """Sends numbers with acks=all until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, log_path: Path, per_second: int) -> None:
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--acks", "-1"]
        # By itself it never tries again.
        config = log_path.with_suffix(".properties")
        config.write_text("retries=2147483647\nenable.idempotence=true\n")
        arguments += ["--throughput", str(per_second), "--producer.config", str(config)]
        self.process = ServerProcess(tool_command(KAFKA_4, _MAIN, *arguments), log_path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.process.kill()

    def finish(self) -> None:
        """Sends no more and waits for what is under way."""
        self.process.stop()

    def acknowledged(self) -> dict[tuple[int, int], str]:
        """The value at each (partition, offset)."""
        return {
            (event["partition"], event["offset"]): event["value"]
            for event in self._events("producer_send_success")
        }

    def failures(self) -> list[dict[str, object]]:
        return self._events("producer_send_error")

    def _events(self, name: str) -> list[dict[str, object]]:
        lines = self.process.output().splitlines()
        events = (json.loads(line) for line in lines if line[:1] == "{" and line[-1:] == "}")
        return [event for event in events if event["name"] == name]
