"""This broker's view of the cluster: the image, the effective settings, and the subscribers.

Every broker has one, whichever broker is the controller. The controller publishes its decisions
here. The broker's parts subscribe, and may read `image` and `config` at any time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from floodmark.config import BrokerConfig, TopicConfig, topic_config
from floodmark.metadata.image import (
    CLUSTER_DEFAULT,
    ConfigResource,
    Delta,
    ImageChange,
    MetadataImage,
    difference,
)

Subscriber = Callable[[MetadataImage, Delta], Awaitable[None] | None]


class MetadataCache:
    """`image` and `config` are replaced, never changed in place."""

    def __init__(self, config: BrokerConfig) -> None:
        self.image = MetadataImage()
        self.config = config
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """`subscriber` gets every delta; the first leads from nothing to the first image."""
        self._subscribers.append(subscriber)

    async def publish(self, image: MetadataImage, touched: ImageChange | None = None) -> None:
        """Replaces the image. Returns once every subscriber has applied the delta.

        `touched` names what may differ, if known. Otherwise everything is compared.
        """
        delta = difference(self.image, image, touched)
        self.image = image
        if concerns_brokers(delta.changed_configs):
            self.config = self.config_of(image)
        if delta.is_empty:
            return
        for subscriber in self._subscribers:
            applied = subscriber(image, delta)
            if applied is not None:
                await applied

    def config_of(self, image: MetadataImage) -> BrokerConfig:
        """This broker's settings under `image`."""
        return self.config.with_dynamic(
            image.config("broker", CLUSTER_DEFAULT),
            image.config("broker", str(self.config.node_id)),
        )

    def topic_config(self, topic: str) -> TopicConfig:
        """The effective settings of a topic."""
        return topic_config(self.config, self.image.config("topic", topic))


def concerns_brokers(resources: Iterable[ConfigResource]) -> bool:
    return any(resource.kind == "broker" for resource in resources)
