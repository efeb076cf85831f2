"""Brokers that have just left the cluster, for clients that must not forget them too soon.

Filled by the metadata cache, read by the Metadata and FindCoordinator APIs. librdkafka drops a
broker that is missing from a response, but still remembers it as a group's coordinator. A
transactional producer then waits for a connection that nobody opens (confluentinc/librdkafka issue
5511). Apache Kafka lists a dead broker until its session ends, which gives librdkafka enough time
to find the new coordinator. Here it is gone within a fraction of a second.
"""

from __future__ import annotations

from floodmark.clock import Clock
from floodmark.metadata.image import BrokerInfo, Delta, MetadataImage


class DepartedBrokers:
    def __init__(self, clock: Clock, remembered_ms: int) -> None:
        """`remembered_ms` is how long a broker counts as just departed."""
        self._clock = clock
        self._remembered_ms = remembered_ms
        self._live: dict[int, BrokerInfo] = {}
        self._departed: dict[int, tuple[BrokerInfo, float]] = {}

    def image_changed(self, image: MetadataImage, delta: Delta) -> None:
        """Subscribes to the cache."""
        if not delta.changed_brokers:
            return
        live = {broker.id: broker for broker in image.live_brokers()}
        now_ms = self._clock.monotonic_ms()
        for broker_id, broker in self._live.items():
            if broker_id not in live:
                self._departed[broker_id] = (broker, now_ms)
        for broker_id in live:
            self._departed.pop(broker_id, None)
        self._live = live

    def recent(self) -> list[BrokerInfo]:
        if not self._departed:
            return []
        oldest_ms = self._clock.monotonic_ms() - self._remembered_ms
        self._departed = {
            broker_id: (broker, left_ms)
            for broker_id, (broker, left_ms) in self._departed.items()
            if left_ms > oldest_ms
        }
        return [broker for broker, _ in self._departed.values()]
