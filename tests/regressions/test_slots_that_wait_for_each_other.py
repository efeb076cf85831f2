"""Handler slots were held by requests that waited for other brokers, whose answers needed slots.

Sixteen transactional producers on three idle brokers stood still for half a minute: the slots of
each broker waited for the transaction coordinators on the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.cluster.connection import Connection
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ProducerSettings
from floodmark.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from floodmark.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kit.thread_cluster import IDS, Cluster
from kit.waiting import eventually

PRODUCERS = 6
PARTITIONS = 6
FAR_BELOW_A_TIMEOUT_S = 20


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(
        tmp_path,
        num_io_threads="1",
        min_insync_replicas="2",
        transaction_state_log_num_partitions=str(PARTITIONS),
        transaction_state_log_replication_factor="3",
        transaction_state_log_min_isr="2",
    )
    cluster.wait_until_agreed()
    yield cluster
    cluster.close()


async def test_transactions_on_all_brokers_do_not_wait_for_each_others_slots(
    cluster: Cluster,
) -> None:
    bootstrap = cluster.brokers[1].bootstrap_servers
    async with Admin(bootstrap) as admin:
        await admin.create_topic(NewTopic("t", PARTITIONS, 3))

    async def produce(number: int) -> None:
        settings = ProducerSettings(transactional_id=f"tx-{number}")
        async with Producer(bootstrap, settings) as producer:
            await producer.init_transactions()
            for _ in range(3):
                async with producer.transaction():
                    for partition in range(PARTITIONS):
                        await producer.send("t", b"value", partition=partition)

    async with asyncio.timeout(FAR_BELOW_A_TIMEOUT_S):
        await asyncio.gather(*map(produce, range(PRODUCERS)))


@pytest.mark.parametrize(
    "request_",
    [
        CreateTopicsRequest(topics=[CreatableTopic(name="x", num_partitions=1)]),
        MetadataRequest(topics=[MetadataRequestTopic(name="x")]),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_a_broker_that_asks_a_silent_controller_hears_of_changes(
    cluster: Cluster, request_: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failover, they come from the next controller."""
    other = next(i for i in IDS if i != cluster.controller)
    links = cluster.brokers[other].broker.controller_client._links
    real_request, asked = links.request, []

    async def be_silent(broker_id: int, message: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(message, CreateTopicsRequest):
            asked.append(message)
            await asyncio.Event().wait()
        return await real_request(broker_id, message, *arguments, **options)

    monkeypatch.setattr(links, "request", be_silent)
    host, port = cluster.brokers[other].bootstrap_servers.split(":")
    connection = await Connection.open(host, int(port))
    waiting = asyncio.create_task(connection.request(request_))
    await eventually(lambda: bool(asked))
    async with Admin(cluster.brokers[cluster.controller].bootstrap_servers) as admin:
        await admin.create_topic(NewTopic("t", 1, 3))
    await eventually(lambda: "t" in cluster.image(other).topics, timeout_s=10)
    waiting.cancel()
    await connection.close()
