"""A real Kafka Connect worker in distributed mode, as a process with its REST interface.

Called by tests/conformance/java/test_connect.py and test_cluster_under_kills.py.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kit.jars import KAFKA_4, classpath, jars
from kit.process import ServerProcess, free_port

_ARTIFACTS = (
    f"org.apache.kafka:connect-runtime:{KAFKA_4}",
    f"org.apache.kafka:connect-file:{KAFKA_4}",
    "org.slf4j:slf4j-simple:1.7.36",
)
_JVM = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
_JVM += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
_STRINGS = "org.apache.kafka.connect.storage.StringConverter"


class Worker:
    """What a test asks of a worker, over HTTP."""

    def __init__(self, port: int, process: ServerProcess) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self.process = process

    def is_ready(self) -> bool:
        """The health check answers 200 once the worker has joined its group."""
        try:
            self._ask("GET", "/health")
        except OSError:
            return False
        return True

    def put(self, name: str, config: Mapping[str, str]) -> None:
        self._ask("PUT", f"/connectors/{name}/config", dict(config))

    def delete(self, name: str) -> None:
        self._ask("DELETE", f"/connectors/{name}")

    def runs(self, name: str) -> bool:
        """The connector and its one task are running; a failed one shows its trace."""
        try:
            status = self._ask("GET", f"/connectors/{name}/status")
        except urllib.error.HTTPError:
            return False
        parts = [status["connector"], *status["tasks"]]
        traces = [part["trace"] for part in parts if part["state"] == "FAILED"]
        assert not traces, traces[0]
        return len(parts) == 2 and all(part["state"] == "RUNNING" for part in parts)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            content = answer.read()
        return json.loads(content) if content else None


@contextmanager
def connect_worker(bootstrap: str, folder: Path, group: str, replicas: int = 1) -> Iterator[Worker]:
    """A worker of `group`; workers of one group share connectors and their offsets."""
    port = free_port()
    properties = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "listeners": f"http://127.0.0.1:{port}",
        "key.converter": _STRINGS,
        "value.converter": _STRINGS,
        "offset.storage.topic": f"{group}-offsets",
        "offset.storage.partitions": "3",
        "config.storage.topic": f"{group}-configs",
        "status.storage.topic": f"{group}-status",
        "status.storage.partitions": "2",
        "offset.flush.interval.ms": "500",
        # The source writes its records and its offsets in transactions.
        "exactly.once.source.support": "enabled",
        # A worker that left comes back at once in these tests: nobody waits for it.
        "scheduled.rebalance.max.delay.ms": "0",
    }
    for kind in ("offset", "config", "status"):
        properties[f"{kind}.storage.replication.factor"] = str(replicas)
    config = folder / f"worker-{port}.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    main_class = "org.apache.kafka.connect.cli.ConnectDistributed"
    command = ["java", *_JVM, "-cp", classpath(jars(*_ARTIFACTS)), main_class, str(config)]
    with ServerProcess(command, folder / f"worker-{port}.out") as process:
        worker = Worker(port, process)
        process.wait_until(worker.is_ready)
        yield worker
