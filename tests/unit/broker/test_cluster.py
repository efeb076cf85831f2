"""Three brokers on one metadata store: registration, election, what they tell each other.

On the file that brokers of one machine share, and on ZooKeeper.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from kazoo.client import KazooClient

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import ConfigResource, NewTopic
from floodmark.metadata import paths
from floodmark.metadata.image import PartitionImage, TopicImage
from floodmark.metadata.quota_nodes import quotas_in
from floodmark.security.quota_entities import QuotaEntity
from floodmark.security.resources import Operation, ResourceKind
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from floodmark.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from floodmark.wire.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataRequest
from floodmark.wire.numbers import ResourceType
from fuzz_kit.raw_client import RawClient
from kit.acls import acl, give, take_all
from kit.thread_cluster import IDS, Cluster
from kit.waiting import eventually, wait_for
from kit.zookeeper import ZooKeeper


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(params=["folder", "zookeeper"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "folder":
        store = {"floodmark.cluster.dir": str(tmp_path / "cluster")}
    else:
        hosts = request.getfixturevalue("zookeeper").hosts
        store = {"zookeeper.connect": f"{hosts}/{tmp_path.name}"}
    cluster = Cluster(tmp_path, store)
    cluster.wait_until_agreed()
    yield cluster
    cluster.close()


async def create(bootstrap: str, topic: NewTopic) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topic(topic)


async def test_any_broker_takes_a_request_that_the_controller_decides(cluster: Cluster) -> None:
    other = next(i for i in IDS if i != cluster.controller)
    topic = NewTopic("t", 3, 3, configs={"retention.ms": "12345"})
    await create(cluster.brokers[other].bootstrap_servers, topic)
    cluster.wait_until_agreed()
    for broker_id in IDS:
        assert len(cluster.image(broker_id).topics["t"].partitions) == 3
        wait_for(lambda b=broker_id: len(cluster.brokers[b].broker.replicas) == 3)
        assert cluster.image(broker_id).config("topic", "t")["retention.ms"] == "12345"


async def test_leaders_of_a_broker_that_stops_move_to_others(cluster: Cluster) -> None:
    await create(cluster.brokers[1].bootstrap_servers, NewTopic("t", 6, 3))
    cluster.wait_until_agreed()
    follower = next(i for i in IDS if i != cluster.controller)
    cluster.brokers[follower].stop()
    cluster.wait_until_agreed()
    partitions = cluster.image(cluster.controller).topics["t"].partitions
    assert all(p.leader in cluster.running and follower not in p.isr for p in partitions)


async def test_another_broker_becomes_the_controller(cluster: Cluster) -> None:
    await create(cluster.brokers[1].bootstrap_servers, NewTopic("t", 6, 3))
    cluster.wait_until_agreed()
    first, epoch = cluster.controller, cluster.image(1).controller_epoch
    cluster.brokers[first].stop()
    cluster.wait_until_agreed()
    assert cluster.controller != first
    assert cluster.image(cluster.controller).controller_epoch == epoch + 1
    partitions = cluster.image(cluster.controller).topics["t"].partitions
    assert all(partition.leader in cluster.running for partition in partitions)


async def test_a_broker_that_comes_back_has_its_partitions_and_a_new_epoch(
    cluster: Cluster,
) -> None:
    await create(cluster.brokers[1].bootstrap_servers, NewTopic("t", 3, 3))
    cluster.wait_until_agreed()
    epoch = cluster.image(cluster.controller).brokers[2].broker_epoch
    cluster.brokers[2].stop()
    cluster.wait_until_agreed()
    cluster.brokers[2].start()
    cluster.wait_until_agreed()
    assert cluster.image(cluster.controller).brokers[2].broker_epoch > epoch
    replicas = cluster.brokers[2].broker.replicas
    assert len(replicas) == 3
    assert not any(replica.core.is_leader for replica in replicas.replicas)


async def test_a_setting_reaches_every_broker(cluster: Cluster) -> None:
    async with Admin(cluster.brokers[1].bootstrap_servers) as admin:
        await admin.alter_configs(
            {ConfigResource(ResourceType.BROKER, ""): {"message.max.bytes": "777000"}}
        )
    wait_for(
        lambda: all(
            cluster.brokers[i].broker.config.get_int("message.max.bytes") == 777_000 for i in IDS
        )
    )


async def test_acls_and_quotas_reach_every_broker(cluster: Cluster) -> None:
    written = acl(Operation.WRITE, ResourceKind.TOPIC, "orders")
    controller = cluster.brokers[cluster.controller]
    give(controller, [written])
    other = next(i for i in IDS if i != cluster.controller)
    async with Admin(cluster.brokers[other].bootstrap_servers) as admin:
        for entity in (QuotaEntity("alice", "app"), QuotaEntity(ip="10.0.0.1")):
            key = "producer_byte_rate" if entity.ip is None else "connection_creation_rate"
            await admin.alter_client_quotas(entity, {key: 1024.0})
    wait_for(lambda: all(written.pattern in cluster.image(i).acls for i in IDS))
    wait_for(lambda: all(len(quotas_in(cluster.image(i).configs)) == 2 for i in IDS))
    take_all(controller)
    wait_for(lambda: not any(cluster.image(i).acls for i in IDS))


async def test_a_setting_of_one_broker_is_changed_at_that_broker_whoever_is_the_controller(
    cluster: Cluster,
) -> None:
    other = next(i for i in IDS if i != cluster.controller)
    async with Admin(cluster.brokers[other].bootstrap_servers) as admin:
        resource = ConfigResource(ResourceType.BROKER, str(other))
        (outcome,) = await admin.alter_configs({resource: {"num.io.threads": "9"}})
        assert outcome.error is None
    slots = {i: cluster.brokers[i].broker.config for i in IDS}
    wait_for(lambda: cluster.brokers[other].broker.config.get_int("num.io.threads") == 9)
    assert all(slots[i].get_int("num.io.threads") != 9 for i in IDS if i != other)


async def test_levels_of_loggers_are_those_of_the_broker_that_is_asked(cluster: Cluster) -> None:
    other = next(i for i in IDS if i != cluster.controller)
    await create(cluster.brokers[1].bootstrap_servers, NewTopic("t", 1, 3))
    level = AlterableConfig(name="floodmark.broker.broker", value=None, config_operation=1)
    setting = AlterableConfig(name="retention.ms", value="7777")
    resources = [
        AlterConfigsResource(resource_type=8, resource_name=str(other), configs=[level]),
        AlterConfigsResource(resource_type=2, resource_name="t", configs=[setting]),
    ]
    request = IncrementalAlterConfigsRequest(resources=resources)
    with RawClient(cluster.brokers[other].bootstrap_servers) as client:
        answer = await asyncio.to_thread(client.ask, request, 1)
    told = {(one.resource_type, one.resource_name): one.error_code for one in answer.responses}
    assert told == {(8, str(other)): 0, (2, "t"): 0}
    await eventually(
        lambda: cluster.image(other).config("topic", "t").get("retention.ms") == "7777"
    )


async def test_every_broker_tells_which_replicas_are_eligible_to_lead(cluster: Cluster) -> None:
    topic = NewTopic("t", 1, 3, configs={"min.insync.replicas": "3"})
    await create(cluster.brokers[1].bootstrap_servers, topic)
    cluster.wait_until_agreed()
    gone = next(i for i in IDS if i != cluster.controller)
    await asyncio.to_thread(cluster.brokers[gone].stop)
    await eventually(
        lambda: gone not in cluster.image(cluster.controller).topics["t"].partitions[0].isr
    )
    for broker_id in cluster.running:
        with RawClient(cluster.brokers[broker_id].bootstrap_servers) as client:
            answer = await asyncio.to_thread(client.ask, DescribeTopicPartitionsRequest(), 0)
        (partition,) = next(one for one in answer.topics if one.name == "t").partitions
        assert partition.eligible_leader_replicas == [gone], f"broker {broker_id}"


async def test_a_new_controller_does_not_obey_the_one_before(cluster: Cluster) -> None:
    """That one may have stood still, and goes on with what it was about to say."""
    controller = cluster.controller
    epoch = cluster.image(controller).controller_epoch
    live = [UpdateMetadataBroker(id=i, endpoints=[], rack=None) for i in IDS if i != controller]
    stale = UpdateMetadataRequest(
        controller_id=controller % 3 + 1,
        controller_epoch=epoch - 1,
        broker_epoch=-1,
        live_brokers=live,
    )
    with RawClient(cluster.brokers[controller].bootstrap_servers) as client:
        answer = await asyncio.to_thread(client.ask, stale, 8)
    assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert cluster.controller == controller
    assert sorted(cluster.image(controller).brokers) == list(IDS)


async def test_a_deletion_that_the_controller_could_not_tell_any_more_is_known(
    cluster: Cluster,
) -> None:
    await create(cluster.brokers[1].bootstrap_servers, NewTopic("t", 3, 3))
    await create(cluster.brokers[1].bootstrap_servers, NewTopic("kept", 1, 3))
    cluster.wait_until_agreed()
    silent = cluster.brokers[cluster.controller]
    silent.broker.controller._channels.tell = lambda *_: None
    async with Admin(silent.bootstrap_servers) as admin:
        await admin.delete_topics(["t"])
    silent.stop()
    cluster.wait_until_agreed()
    for broker_id in cluster.running:
        assert list(cluster.image(broker_id).topics) == ["kept"]
        wait_for(lambda b=broker_id: len(cluster.brokers[b].broker.replicas) == 1)


async def test_a_new_topic_is_never_without_its_settings(cluster: Cluster) -> None:
    """Not even on a broker that reads them late: its first records would meet the defaults."""

    end = threading.Event()

    async def not_before_the_end() -> None:
        await asyncio.to_thread(end.wait)

    others = [i for i in IDS if i != cluster.controller]
    for other in others:
        cluster.brokers[other].broker.membership._read_settings = not_before_the_end
    settings = {"max.message.bytes": "12345"}
    controller = cluster.brokers[cluster.controller].bootstrap_servers
    await create(controller, NewTopic("t", 3, 3, configs=settings))
    for other in others:
        wait_for(lambda b=other: "t" in cluster.image(b).topics)
        assert cluster.image(other).config("topic", "t") == settings
    # Brokers that stand still here would elect no controller, which an orderly stop waits for.
    end.set()


async def test_a_topic_that_kafkas_broker_has_made_in_zookeeper_gets_leaders(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    connect = f"{zookeeper.hosts}/{tmp_path.name}"
    cluster = Cluster(tmp_path, {"zookeeper.connect": connect})
    try:
        cluster.wait_until_agreed()
        topic = TopicImage("__made", UUID(int=7), (PartitionImage(-1, -1, -1, (1, 2), ()),) * 2)
        client = KazooClient(connect)
        client.start()
        client.create("/config/topics/__made", b'{"version":1,"config":{"retention.ms":"5"}}')
        client.create("/brokers/topics/__made", paths.encode_topic(topic))
        client.stop()
        client.close()
        wait_for(lambda: all("__made" in cluster.image(i).topics for i in IDS))
        wait_for(
            lambda: all(
                partition.leader == 1 and partition.isr == (1, 2)
                for i in IDS
                for partition in cluster.image(i).topics["__made"].partitions
            )
        )
        wait_for(lambda: all(cluster.image(i).config("topic", "__made") for i in IDS))
    finally:
        cluster.close()


async def test_lists_of_eligible_leaders_that_nobody_knew_of_are_no_obstacle(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    """As a controller of Kafka's leaves them behind, which does not know them."""
    connect = f"{zookeeper.hosts}/{tmp_path.name}"
    cluster = Cluster(tmp_path, {"zookeeper.connect": connect})
    try:
        cluster.wait_until_agreed()
        topic = NewTopic("t", 1, 3, configs={"min.insync.replicas": "3"})
        for one in (topic, replace(topic, name="deleted")):
            await create(cluster.brokers[1].bootstrap_servers, one)
        cluster.wait_until_agreed()
        client = KazooClient(connect)
        client.start()
        for name in ("t", "deleted"):
            void = b'{"version":1,"state_version":99,"replicas":[1]}'
            client.create(paths.eligible_path(name, 0), void)
        client.stop()
        client.close()
        cluster.brokers[next(i for i in IDS if i != cluster.controller)].stop()
        wait_for(lambda: len(cluster.image(cluster.controller).topics["t"].partitions[0].isr) == 2)
        async with Admin(cluster.brokers[cluster.controller].bootstrap_servers) as admin:
            await admin.delete_topics(["deleted"])
        wait_for(lambda: all(list(cluster.image(i).topics) == ["t"] for i in cluster.running))
    finally:
        cluster.close()
