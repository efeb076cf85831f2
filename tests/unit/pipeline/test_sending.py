"""A task's requests: none is still on its way when an attempt is over."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError
from floodmark.client.producer.produce_requests import Appended
from floodmark.pipeline.datasource.options import parse_write_options
from floodmark.pipeline.datasource.sending import BatchSender
from floodmark.wire.errors import ErrorCode


class TwoLeaders(BatchSender):
    """Leader 0 refuses at once, leader 1 answers when it may."""

    def __init__(self) -> None:
        cluster: Any = SimpleNamespace(leader_of=lambda partition: partition.partition)
        options = {"kafka.bootstrap.servers": "h:1", "topic": "t"}
        super().__init__(cluster, parse_write_options(options).client)
        self.may_answer = asyncio.Event()
        self.answered = False

    async def _send_to(
        self, leader: int, batches: Mapping[TopicPartition, bytearray]
    ) -> dict[TopicPartition, Appended | KafkaError]:
        if leader == 0:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        await self.may_answer.wait()
        self.answered = True
        return dict.fromkeys(batches, (0, -1))


async def test_a_refusal_waits_for_the_other_leaders() -> None:
    sender = TwoLeaders()
    batches = {TopicPartition("t", number): bytearray() for number in range(2)}
    sending = asyncio.create_task(sender._send_once(batches))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not sending.done()
    sender.may_answer.set()
    with pytest.raises(KafkaError):
        await sending
    assert sender.answered
