"""The controller of one broker on a real store: commits, batches, publication, restarts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from floodmark.broker.cluster_membership import ClusterMembership
from floodmark.config import BrokerConfig, ConfigError
from floodmark.controller.configs import ConfigAlteration, ConfigStep
from floodmark.controller.decision import ControllerUnavailable
from floodmark.controller.features import FeatureUpdate
from floodmark.controller.topics import NewTopic, TopicRef
from floodmark.metadata import paths
from floodmark.metadata.adoption import FoundFolder, FoundNumbers, FoundTopic
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import (
    BrokerInfo,
    ConfigResource,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from floodmark.metadata.loader import load_image
from floodmark.metadata.store import Create, Delete, SetData
from floodmark.testing.memory_store import MemoryStore
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.wire.errors import ErrorCode
from floodmark.wire.numbers import UpgradeType
from kit.waiting import eventually

ME = BrokerInfo(1, 0, {"PLAINTEXT": Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")})


NEW = PartitionImage(-1, 0, -1, (1,), ())


@pytest.fixture
def store():
    store = MemoryStore()
    yield store
    store.dispose()


class Member(ClusterMembership):
    """Broker 1, which founds the cluster and elects itself."""

    def __init__(self, store: MemoryStore) -> None:
        self.metadata = MetadataCache(BrokerConfig.load({}))
        super().__init__(1, store, self.metadata, VirtualClock(), no_other, random.Random(7))


class SlowlyReadStore(MemoryStore):
    """Like ZooKeeper, reports only changes of a node's own children. `after_next_read` runs between
    the next reading of all topics and its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.watches_below = False
        self.after_next_read: Callable[[], Awaitable[None]] | None = None

    async def children(self, path: str) -> list[str]:
        names = await super().children(path)
        after_read = self.after_next_read
        if path == paths.TOPICS and after_read is not None:
            self.after_next_read = None
            await after_read()
            # The watch reports on the loop before the answer arrives.
            await asyncio.sleep(0)
        return names


async def no_other(broker_id, instruction):
    pytest.fail(f"broker {broker_id} is told something, and there is none")


@pytest.fixture
async def member(store):
    member = Member(store)
    await member.join(ME)
    yield member
    await member.leave()


@pytest.fixture
def controller(member):
    return member.controller


async def test_a_new_store_gets_an_identity_and_features(member):
    image = member.metadata.image
    assert len(image.cluster_id) == 22
    assert (image.controller_id, image.controller_epoch) == (1, 1)
    assert image.features.finalized == {"group.version": 1, "transaction.version": 2}
    assert image.brokers[1].endpoints == ME.endpoints
    assert image.brokers[1].broker_epoch > 0


async def test_what_is_published_is_what_is_stored(member, controller, store):
    await controller.create_topics([NewTopic("a", 3, configs={"retention.ms": "5"})])
    await controller.create_topics([NewTopic("gone")])
    await controller.delete_topics([TopicRef("gone")])
    await controller.allocate_producer_ids(1)
    await controller.update_features(
        [FeatureUpdate("transaction.version", 1, UpgradeType.SAFE_DOWNGRADE)]
    )
    assert await load_image(store) == member.metadata.image


async def test_subscribers_apply_a_delta_before_the_answer(store):
    member = Member(store)
    seen = []

    async def apply(image, delta):
        await asyncio.sleep(0)
        seen.append(([t.name for t in delta.created_topics], "a" in image.topics))

    member.metadata.subscribe(apply)
    await member.join(ME)
    await member.controller.create_topics([NewTopic("a")])
    assert seen == [([], False), (["a"], True)]
    await member.leave()


async def test_requests_that_wait_together_share_a_commit(controller, store):
    before = store.multis
    answers = await asyncio.gather(
        *(controller.create_topics([NewTopic(f"t{number}")]) for number in range(20)),
        controller.create_topics([NewTopic("t3")]),
    )
    assert store.multis - before == 1
    assert [a.error_code for (a,) in answers[:20]] == [ErrorCode.NONE] * 20
    assert answers[20][0].error_code is ErrorCode.TOPIC_ALREADY_EXISTS


async def test_a_broker_setting_counts_for_the_next_request_of_the_same_commit(member, controller):
    altered, created = await asyncio.gather(
        controller.incremental_alter_configs(
            [
                ConfigAlteration(
                    ConfigResource("broker", ""),
                    [ConfigStep("log.cleaner.max.compaction.lag.ms", 0, "10")],
                )
            ]
        ),
        controller.create_topics([NewTopic("t", configs={"min.compaction.lag.ms": "20"})]),
    )
    assert altered[0].error_code is ErrorCode.NONE
    assert created[0].error_code is ErrorCode.INVALID_CONFIG
    assert member.metadata.topic_config("t").get_int("max.compaction.lag.ms") == 10


async def test_dynamic_settings_are_in_force_at_once_and_after_a_restart(member, controller, store):
    steps = [ConfigStep("num.io.threads", 0, "4")]
    await controller.incremental_alter_configs(
        [ConfigAlteration(ConfigResource("broker", "1"), steps)]
    )
    assert member.metadata.config.get_int("num.io.threads") == 4
    await member.leave()
    again = Member(store)
    await again.join(ME)
    assert again.metadata.config.get_int("num.io.threads") == 4
    await again.leave()


async def test_a_restart_keeps_topics_and_begins_a_new_reign(member, controller, store):
    (created,) = await controller.create_topics([NewTopic("a", 2)])
    old = member.metadata.image
    await member.leave()
    again = Member(store)
    deltas = []
    again.metadata.subscribe(lambda image, delta: deltas.append(delta))
    await again.join(ME)
    topic = again.metadata.image.topics_by_id[created.topic_id]
    assert [p.leader_epoch for p in topic.partitions] == [1, 1]
    assert again.metadata.image.cluster_id == old.cluster_id
    assert again.metadata.image.controller_epoch == 2
    assert again.metadata.image.brokers[1].broker_epoch > old.brokers[1].broker_epoch
    assert [t.name for t in deltas[0].created_topics] == ["a"]
    assert await load_image(store) == again.metadata.image
    await again.leave()


async def test_a_failed_commit_changes_nothing_and_the_next_one_works(member, controller, store):
    store.fail_next = 1
    with pytest.raises(ControllerUnavailable) as caught:
        await controller.create_topics([NewTopic("a")])
    assert caught.value.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "a" not in member.metadata.image.topics
    (answer,) = await controller.create_topics([NewTopic("a")])
    assert answer.error_code is ErrorCode.NONE


async def test_commits_that_fail_again_and_again_do_not_fill_the_log(controller, store, caplog):
    store.fail_next = 20
    for _ in range(20):
        with pytest.raises(ControllerUnavailable):
            await controller.create_topics([NewTopic("a")])
    told = [line.message for line in caplog.records if "a metadata change" in line.message]
    assert len(told) == 5, "at the 1st, 2nd, 4th, 8th and 16th time"
    assert "(16 times by now): the change could not be stored" in told[-1]


async def test_a_deposed_controller_writes_nothing(controller, store):
    await store.multi([SetData(paths.CONTROLLER_EPOCH, b"2")])
    with pytest.raises(ControllerUnavailable) as caught:
        await controller.create_topics([NewTopic("a")])
    assert caught.value.error_code is ErrorCode.NOT_CONTROLLER
    assert await store.get("/brokers/topics/a") is None


async def test_a_deposed_controller_applies_a_stored_change_to_its_end(member, controller):
    """The image has it already, so no later delta would apply the rest."""
    is_applying, may_go_on = asyncio.Event(), asyncio.Event()
    applied = []

    async def apply(image, delta):
        is_applying.set()
        await may_go_on.wait()
        applied.extend(topic.name for topic in delta.created_topics)

    member.metadata.subscribe(apply)
    creating = asyncio.create_task(controller.create_topics([NewTopic("a")]))
    await is_applying.wait()
    controller.deposed()
    assert not controller.is_active
    may_go_on.set()
    (created,) = await creating
    assert created.error_code is ErrorCode.NONE
    assert applied == ["a"]


async def test_a_controller_deposed_while_it_reloads_decides_nothing_more(
    member, controller, store
):
    is_applying, may_go_on = asyncio.Event(), asyncio.Event()

    async def apply(image, delta):
        is_applying.set()
        await may_go_on.wait()

    await store.multi([SetData(paths.FEATURE, paths.encode_features({}))])
    member.metadata.subscribe(apply)
    controller._writer.reload()
    creating = asyncio.create_task(controller.create_topics([NewTopic("a")]))
    await is_applying.wait()
    controller.deposed()
    may_go_on.set()
    with pytest.raises(ControllerUnavailable):
        await creating
    assert await store.get(paths.topic_path("a")) is None


async def test_a_topic_that_appears_while_the_topics_are_read_is_noticed():
    """Kafka's brokers create internal topics in ZooKeeper themselves, several at a time."""
    store = SlowlyReadStore()
    member = Member(store)
    await member.join(ME)
    theirs = TopicImage("theirs", UUID(int=1), (NEW,))

    async def create_theirs():
        await store.multi([Create(paths.topic_path("theirs"), paths.encode_topic(theirs))])

    store.after_next_read = create_theirs
    await member.controller.create_topics([NewTopic("ours")])
    await eventually(lambda: member.metadata.image.topics.keys() == {"ours", "theirs"})
    await member.leave()
    store.dispose()


async def test_a_malformed_registration_only_delays_the_others(member, store, caplog):
    """Somebody wrote into ZooKeeper by hand, and repairs it."""
    malformed, other = paths.broker_path(2), BrokerInfo(3, -1, ME.endpoints)
    await store.multi([Create(malformed, b"nonsense")])
    await eventually(lambda: "a node is malformed" in caplog.text)
    await store.multi([Create(paths.broker_path(3), paths.encode_broker(other, 0))])
    await store.multi([Delete(malformed)])
    await eventually(lambda: 3 in member.metadata.image.brokers)


async def test_a_malformed_note_about_log_folders_is_deleted(member, store):
    await store.multi([Create(f"{paths.LOG_DIR_EVENTS}/note", b"nonsense")])
    await eventually(lambda: is_empty(store, paths.LOG_DIR_EVENTS))
    await store.multi([paths.log_dir_event(1)])
    await eventually(lambda: is_empty(store, paths.LOG_DIR_EVENTS))


async def is_empty(store, path):
    return not await store.children(path)


async def test_a_deposed_controller_logs_no_error(controller, store, caplog):
    caplog.set_level("INFO", "floodmark.controller.writer")
    await store.multi([SetData(paths.CONTROLLER_EPOCH, b"2")])
    with pytest.raises(ControllerUnavailable):
        await controller.create_topics([NewTopic("a")])
    told = [one for one in caplog.records if "another broker is now the controller" in one.message]
    assert {one.levelname for one in told} == {"INFO"}


async def test_a_stopped_controller_refuses_requests(store):
    member = Member(store)
    with pytest.raises(ControllerUnavailable, match="not running"):
        await member.controller.create_topics([NewTopic("a")])


async def test_a_request_that_breaks_does_not_take_others_with_it(controller):
    outcomes: tuple[Any, ...] = await asyncio.gather(
        controller._writer.submit(lambda view: 1 // 0),
        controller.create_topics([NewTopic("a")]),
        return_exceptions=True,
    )
    broken, fine = outcomes
    assert isinstance(broken, ZeroDivisionError)
    assert fine[0].error_code is ErrorCode.NONE


async def test_a_folder_of_apache_kafka_is_adopted(store):
    member = Member(store)
    found = FoundFolder(
        "94rrZzHQQNqHs6aY0k_apA",
        {"orders": FoundTopic({0, 2}, UUID(int=9)), "old": FoundTopic({0})},
        lambda: FoundNumbers({("orders", 0): 4, ("old", 0): 0}),
    )
    report = await member.join(ME, found)
    assert report.adopted_topics == ["old", "orders"]
    image = member.metadata.image
    assert image.cluster_id == "94rrZzHQQNqHs6aY0k_apA"
    assert image.topics["orders"].topic_id == UUID(int=9)
    first, *others = (partition.leader_epoch for partition in image.topics["orders"].partitions)
    assert first > 4
    assert [epoch >= 0 for epoch in others] == [True, True]
    assert await load_image(store) == image
    await member.leave()


async def test_a_known_store_takes_unknown_folders_for_strays(member, controller, store):
    (created,) = await controller.create_topics([NewTopic("a")])
    await member.leave()
    again = Member(store)
    found = FoundFolder(
        None,
        {
            "a": FoundTopic({0, 1}, created.topic_id),
            "deleted": FoundTopic({0}, UUID(int=4)),
        },
        lambda: pytest.fail("a store that is not new knows better"),
    )
    report = await again.join(ME, found)
    assert report.stray_partitions == [("a", 1), ("deleted", 0)]
    assert list(again.metadata.image.topics) == ["a"]
    await again.leave()


async def test_folders_of_another_cluster_are_refused(member, store):
    await member.leave()
    again = Member(store)
    with pytest.raises(ConfigError, match="belong to cluster other"):
        await again.join(ME, FoundFolder("other"))
    await again.leave()


async def test_topic_ids_are_the_same_for_the_same_chance(store):
    member = Member(store)
    await member.join(ME)
    (created,) = await member.controller.create_topics([NewTopic("a")])
    await member.leave()
    second = MemoryStore()
    member = Member(second)
    await member.join(ME)
    assert (await member.controller.create_topics([NewTopic("a")]))[0].topic_id == created.topic_id
    await member.leave()
    second.dispose()
