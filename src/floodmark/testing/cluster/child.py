"""One broker of a test cluster: the program that `process.py` runs.

`python -m floodmark.testing.cluster.child '{"node.id": "1", ...}'` runs the broker of `floodmark
up` with a clock, a disk and a metadata store that a test can disturb. Commands arrive as JSON lines
on stdin, responses leave as JSON lines on stdout. The program exits when stdin closes, so no broker
outlives its test.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from floodmark.broker.broker import Broker
from floodmark.broker.main import run
from floodmark.config.broker_config import BrokerConfig
from floodmark.testing.cluster.disturbed import DisturbedClock, DisturbedFiles, DisturbedStore
from floodmark.testing.faults import Faults


class Orders:
    """Executes the test's commands on its own thread."""

    def __init__(self, source: TextIO, sink: TextIO) -> None:
        self._source = source
        self._sink = sink
        self.clock = DisturbedClock()
        self.files = DisturbedFiles()
        self.store = DisturbedStore()
        self.faults = Faults()
        self._known: Mapping[str, Callable[..., Any]] = {
            "fail": self.faults.fail,
            "delay": self.faults.delay,
            "drop": self.faults.drop,
            "clear": self.faults.clear,
            "reset": self.faults.reset,
            "struck": lambda: dict(self.faults.struck),
            "jump_clock": self.clock.jump,
            "fill_disk": self.files.fill,
            "cut_store": self.store.cut,
        }

    def make_broker(self, config: BrokerConfig, no_folder_left: Callable[[], None]) -> Broker:
        return _ReportingBroker(
            config,
            clock=self.clock,
            files=self.files,
            no_folder_left=no_folder_left,
            report=self._say,
        )

    def ready(self, broker: Broker) -> None:
        broker.dispatch.faults = self.faults
        threading.Thread(target=self._obey, name="test-orders", daemon=True).start()
        self._say({"ready": broker.broker_id})

    def _obey(self) -> None:
        for line in self._source:
            order = json.loads(line)
            try:
                result = self._known[order["name"]](*order["args"], **order["kwargs"])
            except (TypeError, ValueError) as problem:
                self._say({"problem": str(problem)})
            else:
                self._say({"result": result})
        # The test is gone, perhaps killed, so nobody can stop this broker cleanly.
        os._exit(1)

    def _say(self, answer: Mapping[str, Any]) -> None:
        print(json.dumps(answer), file=self._sink, flush=True)


class _ReportingBroker(Broker):
    """Reports its ports before it joins the cluster, because the controller must reach it."""

    def __init__(
        self, config: BrokerConfig, *, report: Callable[[Mapping[str, Any]], None], **parts: Any
    ) -> None:
        super().__init__(config, **parts)
        self._report = report

    def _bind(self) -> None:
        super()._bind()
        listeners = self.config.listeners
        self._report({"ports": {x.name: self.network.port(x.name) for x in listeners}})


def main() -> int:
    orders = Orders(sys.stdin, sys.stdout)
    orders.store.install()
    return run(json.loads(sys.argv[1]), ready=orders.ready, make_broker=orders.make_broker)


if __name__ == "__main__":
    sys.exit(main())
