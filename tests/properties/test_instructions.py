"""Brokers that do as they are told know what the controller knows, whatever it decides."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from floodmark.controller.instructions import Instruction, instructions
from floodmark.controller.told import (
    after_leader_and_isr,
    after_stop_replica,
    after_update_metadata,
)
from floodmark.metadata.image import (
    BrokerInfo,
    Endpoint,
    ImageChange,
    MetadataImage,
    PartitionImage,
    TopicImage,
    difference,
)
from floodmark.wire.messages.leader_and_isr import LeaderAndIsrRequest
from floodmark.wire.messages.update_metadata import UpdateMetadataRequest
from kit.seeds import seeds

BROKERS = (1, 2, 3, 4)
NAMES = ("a", "b", "c")
STEPS = 60


class World:
    """A controller that changes its mind at random, and the brokers that it tells."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.truth = MetadataImage(controller_id=1, controller_epoch=1)
        self.images: dict[int, MetadataImage] = {}
        self._next_epoch = 1

    def step(self) -> None:
        change = self.random.choice((self._broker, self._topic, self._topic, self._partition))()
        old, self.truth = self.truth, self.truth.apply(change)
        for gone in self.images.keys() - self.truth.brokers.keys():
            del self.images[gone]
        told = instructions(old, self.truth, difference(old, self.truth), "PLAINTEXT")
        for broker, requests in told.items():
            if self.truth.brokers[broker] != old.brokers.get(broker):
                self.images[broker] = MetadataImage()
            for request in requests:
                self._obey(broker, request)

    def _obey(self, broker: int, request: Instruction) -> None:
        image = self.images[broker]
        if isinstance(request, UpdateMetadataRequest):
            self.images[broker] = after_update_metadata(image, request)
        elif isinstance(request, LeaderAndIsrRequest):
            self.images[broker] = after_leader_and_isr(image, request)
        else:
            self.images[broker] = after_stop_replica(image, request, broker)

    def _epoch(self) -> int:
        self._next_epoch += 1
        return self._next_epoch

    def _broker(self) -> ImageChange:
        broker = self.random.choice(BROKERS)
        others = self.truth.brokers.keys() - {broker}
        # The last one stays: it is the controller.
        if broker in self.truth.brokers and others and self.random.random() < 0.5:
            return ImageChange(brokers={broker: None})
        endpoint = Endpoint("PLAINTEXT", "h", 9000 + broker, "PLAINTEXT")
        return ImageChange(
            brokers={broker: BrokerInfo(broker, self._epoch(), {"PLAINTEXT": endpoint}, "r")}
        )

    def _partition_of(self, leader_epoch: int) -> PartitionImage:
        replicas = tuple(self.random.sample(BROKERS, self.random.randint(1, 3)))
        return PartitionImage(replicas[0], leader_epoch, self._epoch(), replicas, replicas[:2])

    def _topic(self) -> ImageChange:
        name = self.random.choice(NAMES)
        if name in self.truth.topics and self.random.random() < 0.5:
            return ImageChange(topics={name: None})
        topic_id = UUID(int=self.random.getrandbits(128))
        partitions = tuple(self._partition_of(0) for _ in range(self.random.randint(1, 4)))
        return ImageChange(topics={name: TopicImage(name, topic_id, partitions)})

    def _partition(self) -> ImageChange:
        if not self.truth.topics:
            return ImageChange()
        topic = self.random.choice(list(self.truth.topics.values()))
        index = self.random.randrange(len(topic.partitions))
        changed = self._partition_of(topic.partitions[index].leader_epoch + 1)
        if self.random.random() < 0.3:
            topic = replace(topic, partitions=(*topic.partitions, self._partition_of(0)))
        return ImageChange(topics={topic.name: topic.with_partitions({index: changed})})


@pytest.mark.parametrize("seed", seeds(20))
def test_brokers_that_obey_know_what_the_controller_knows(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
        for image in world.images.values():
            assert image.topics == world.truth.topics
            assert image.topics_by_id == world.truth.topics_by_id
            assert {b.id: b.endpoints for b in image.brokers.values()} == {
                b.id: b.endpoints for b in world.truth.brokers.values()
            }
    assert world.images
