"""Three brokers in threads of this process, with a metadata store that they share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from floodmark.metadata.image import MetadataImage
from floodmark.testing import Broker
from kit.waiting import wait_for

IDS = (1, 2, 3)


class Cluster:
    def __init__(
        self, folder: Path, store: Mapping[str, str] | None = None, **settings: str
    ) -> None:
        """`store` are the settings that name it; a folder that they share by default. Dots in the
        names of other settings are underscores here."""
        self._folder = folder
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self._settings |= store or {"floodmark.cluster.dir": str(folder / "cluster")}
        self.brokers = {broker_id: self._make(broker_id) for broker_id in IDS}

    def _make(self, broker_id: int) -> Broker:
        settings = {**self._settings, "node.id": str(broker_id)}
        return Broker(self._folder / f"data-{broker_id}", settings).start()

    def image(self, broker_id: int) -> MetadataImage:
        return self.brokers[broker_id].broker.metadata.image

    @property
    def running(self) -> list[int]:
        return [broker_id for broker_id, broker in self.brokers.items() if broker.is_running]

    @property
    def controller(self) -> int:
        """-1 while there is none."""
        active = [i for i in self.running if self.brokers[i].broker.controller.is_active]
        return active[0] if len(active) == 1 else -1

    def agrees(self) -> bool:
        """Whether every broker that runs knows the same of the cluster."""
        pictures = [
            (
                image.controller_id,
                sorted(broker.id for broker in image.live_brokers()),
                image.topics,
                image.configs,
            )
            for image in map(self.image, self.running)
        ]
        expected = (self.controller, sorted(self.running))
        return all(p == pictures[0] and p[:2] == expected for p in pictures)

    def wait_until_agreed(self) -> None:
        wait_for(self.agrees)

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.close()
