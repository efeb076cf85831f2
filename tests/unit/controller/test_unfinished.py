"""Decisions larger than one multi, and what a controller that stops in the middle leaves."""

from __future__ import annotations

import random
from collections.abc import Mapping
from uuid import UUID

import pytest

from floodmark.broker.cluster_membership import ClusterMembership
from floodmark.config import BrokerConfig
from floodmark.controller.cutting import cut
from floodmark.controller.decision import ControllerUnavailable
from floodmark.controller.topics import NewTopic, TopicRef
from floodmark.metadata import paths
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import BrokerInfo, Endpoint, PartitionImage, TopicImage
from floodmark.metadata.loader import load_image
from floodmark.metadata.store import (
    Create,
    Delete,
    Node,
    SetData,
    StoreUnavailable,
    operation_bytes,
)
from floodmark.testing.memory_store import MemoryStore
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.wire.errors import ErrorCode
from kit.waiting import eventually

ME = BrokerInfo(1, 0, {"PLAINTEXT": Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")})
SMALL_BYTES = 2000


class StoppingStore(MemoryStore):
    """Fails from the multi with this number on, as if the controller had lost its store."""

    def __init__(self) -> None:
        super().__init__()
        self.multi_limit_bytes = SMALL_BYTES
        self.stops_at: int | None = None
        self.loses_answers = 0

    async def multi(self, operations):
        if self.stops_at is not None and self.multis >= self.stops_at:
            raise StoreUnavailable("/", "no contact")
        outcomes = await super().multi(operations)
        if self.loses_answers:
            self.loses_answers -= 1
            raise StoreUnavailable("/", "the answer is lost")
        return outcomes


class LaggingStore(StoppingStore):
    """Reads what was there before the last lost answer, as from a server that lags behind."""

    def __init__(self) -> None:
        super().__init__()
        self.old_nodes: Mapping[str, Node] | None = None

    async def multi(self, operations):
        if self.loses_answers:
            self.old_nodes = await super().read_tree("/")
        return await super().multi(operations)

    async def read_tree(self, path):
        if self.old_nodes is None:
            return await super().read_tree(path)
        return {at: node for at, node in self.old_nodes.items() if f"{at}/".startswith(f"{path}/")}

    async def synchronize(self):
        self.old_nodes = None


@pytest.fixture
def store():
    store = StoppingStore()
    yield store
    store.dispose()


class Member(ClusterMembership):
    def __init__(self, store):
        self.metadata = MetadataCache(BrokerConfig.load({}))
        super().__init__(1, store, self.metadata, VirtualClock(), no_other, random.Random(7))


async def no_other(broker_id, instruction):
    pytest.fail(f"broker {broker_id} is told something, and there is none")


async def joined(store):
    member = Member(store)
    await member.join(ME)
    return member


def test_pieces_keep_the_order_and_the_limit():
    operations = [Create(f"/{number}", b"x" * 300) for number in range(20)]
    pieces = list(cut(operations, SMALL_BYTES))
    assert [one for piece in pieces for one in piece] == operations
    assert max(sum(map(operation_bytes, piece)) for piece in pieces) <= SMALL_BYTES
    assert len(pieces) > 1
    assert list(cut(operations, None)) == [operations]


def test_an_operation_over_the_limit_goes_alone():
    large, small = Create("/large", b"x" * 3000), Delete("/small")
    assert list(cut([small, large, small], SMALL_BYTES)) == [[small], [large], [small]]


async def test_a_topic_too_large_for_one_multi_is_created_in_several(store):
    member = await joined(store)
    before = store.multis
    (created,) = await member.controller.create_topics([NewTopic("large", 50, 1)])
    assert created.error_code == 0
    assert store.multis > before + 3
    stored = (await load_image(store)).topics["large"]
    assert stored == member.metadata.image.topics["large"]
    assert all(one.leader == 1 for one in stored.partitions)
    await member.leave()


@pytest.mark.parametrize("multis_done", [1, 2, 3])
async def test_the_next_controller_finishes_a_creation(store, multis_done):
    first = await joined(store)
    store.stops_at = store.multis + multis_done
    with pytest.raises(ControllerUnavailable):
        await first.controller.create_topics([NewTopic("large", 50, 1)])
    await first.leave()
    store.stops_at = None
    second = await joined(store)
    await eventually(lambda: all(one.leader == 1 for one in partitions(second, "large")))
    stored = (await load_image(store)).topics["large"].partitions
    assert [(one.leader, one.isr) for one in stored] == [(1, (1,))] * 50
    assert stored[-1].leader_epoch == 0
    await second.leave()


@pytest.mark.parametrize("multis_done", [1, 2, 3])
async def test_the_next_controller_finishes_a_deletion(store, multis_done):
    first = await joined(store)
    await first.controller.create_topics([NewTopic("large", 50, 1)])
    store.stops_at = store.multis + multis_done
    with pytest.raises(ControllerUnavailable):
        await first.controller.delete_topics([TopicRef("large")])
    await first.leave()
    store.stops_at = None
    second = await joined(store)
    await eventually(lambda: "large" not in second.metadata.image.topics)
    assert await store.children(paths.TOPICS) == []
    assert await store.children(paths.DELETED_TOPICS) == []
    assert await store.children("/config/topics") == []
    (created,) = await second.controller.create_topics([NewTopic("large", 1, 1)])
    assert created.error_code == 0
    await second.leave()


async def test_the_same_controller_finishes_what_its_store_did_not_take(store):
    member = await joined(store)
    store.stops_at = store.multis + 2
    with pytest.raises(ControllerUnavailable):
        await member.controller.create_topics([NewTopic("large", 50, 1)])
    store.stops_at = None
    await member.controller.create_topics([NewTopic("other", 1, 1)])
    await eventually(lambda: all(one.leader == 1 for one in partitions(member, "large")))
    await member.leave()


async def test_the_same_controller_finishes_a_move_of_which_only_the_state_was_stored(store):
    """The added replicas are in sync, and the topic's node still names those that were to go."""
    member = await joined(store)
    await member.controller.create_topics([NewTopic("moving", 1, 1)])
    (partition,) = partitions(member, "moving")
    moving = partition._replace(replicas=(1, 2), removing_replicas=(2,))
    topic = member.metadata.image.topics["moving"].with_partitions({0: moving})
    await store.multi([SetData(paths.topic_path("moving"), paths.encode_topic(topic))])
    store.fail_next = 1
    with pytest.raises(ControllerUnavailable):
        await member.controller.create_topics([NewTopic("other", 1, 1)])
    await member.controller.create_topics([NewTopic("other", 1, 1)])
    await eventually(lambda: partitions(member, "moving")[0].replicas == (1,))
    (stored,) = (await load_image(store)).topics["moving"].partitions
    assert (stored.replicas, stored.removing_replicas) == ((1,), ())
    await member.leave()


async def test_what_was_stored_without_an_answer_is_known_though_a_server_lags():
    store = LaggingStore()
    member = await joined(store)
    store.loses_answers = 1
    with pytest.raises(ControllerUnavailable):
        await member.controller.create_topics([NewTopic("stored", 1, 1)])
    (created,) = await member.controller.create_topics([NewTopic("stored", 1, 1)])
    assert created.error_code is ErrorCode.TOPIC_ALREADY_EXISTS
    await member.leave()
    store.dispose()


async def test_a_topic_that_only_kafka_has_announced_is_begun(store):
    """Kafka's controller writes the topic's node first, and the states when it notices that."""
    first = await joined(store)
    await first.leave()
    replicas = PartitionImage(-1, -1, -1, (1,), ())
    topic = TopicImage("announced", UUID(int=7), (replicas, replicas))
    await store.open()
    await store.multi([Create(paths.topic_path("announced"), paths.encode_topic(topic))])
    second = await joined(store)
    await eventually(lambda: all(one.leader == 1 for one in partitions(second, "announced")))
    await second.leave()


async def test_a_victory_whose_answer_was_lost_counts(store):
    first = await joined(store)
    await first.leave()
    second = Member(store)
    await store.open()
    store.loses_answers = 1
    assert await second.controller.stand()
    assert second.metadata.image.controller_epoch == 2
    await second.leave()


async def test_an_election_that_was_never_stored_is_no_victory(store):
    first = await joined(store)
    await first.leave()
    second = Member(store)
    await store.open()
    store.stops_at = store.multis
    with pytest.raises(StoreUnavailable):
        await second.controller.stand()
    assert not second.controller.is_active
    store.stops_at = None
    assert await second.controller.stand()
    await second.leave()


async def test_a_controllers_node_of_our_own_that_nobody_knows_of_is_replaced(store):
    member = await joined(store)
    member.controller.deposed()
    member._changed.set()
    await eventually(lambda: member.controller.is_active)
    assert (await load_image(store)).controller_epoch == 2
    await member.leave()


def partitions(member, topic):
    found = member.metadata.image.topics.get(topic)
    return found.partitions if found else [PartitionImage(-1, -1, -1, (), ())]
