"""Handler slots were held by requests that waited for other brokers, whose answers needed slots.

Sixteen transactional producers on three idle brokers stood still for half a minute: the slots of
each broker waited for the transaction coordinators on the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ProducerSettings
from kit.thread_cluster import Cluster

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
