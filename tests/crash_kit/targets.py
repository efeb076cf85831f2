"""One broker or three, one of which can be killed and started again.

Used by tests that run the same load against both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random

from floodmark.testing import Cluster
from kit.broker import Broker, start_floodmark
from kit.process import free_port


class OneBroker:
    replicas = 1

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._settings = settings
        self._port = free_port()
        self._broker = self._start()
        self.bootstrap = self._broker.bootstrap

    def _start(self) -> Broker:
        return start_floodmark(self._folder, self._settings, self._port)

    def replace_one(self, _: Random) -> None:
        self._broker.process.kill()
        self._broker = self._start()

    def stop(self) -> None:
        self._broker.process.stop()


class ThreeBrokers:
    replicas = 3

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._cluster = Cluster(folder / "cluster", settings).open()
        self.bootstrap = self._cluster.bootstrap_servers

    def replace_one(self, random: Random) -> None:
        broker = random.choice(self._cluster.ids)
        self._cluster.kill(broker)
        self._cluster.start(broker)

    def stop(self) -> None:
        self._cluster.close()


Target = OneBroker | ThreeBrokers
