"""A broker that has lost its session and lives is told once who leads what it led."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from floodmark.controller import known_brokers
from floodmark.controller.channels import BrokerChannels
from floodmark.controller.elections import led_by
from floodmark.controller.instructions import Instruction, farewells
from floodmark.metadata.image import ImageChange, MetadataImage, difference
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.leader_and_isr import LeaderAndIsrRequest
from floodmark.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kit.waiting import eventually
from unit.controller.test_instructions import broker, image, kinds, partition, topic

BEFORE = image(topic("a", partition(1, 2)))
AFTER = BEFORE.apply(
    ImageChange(
        topics={"a": topic("a", led_by(partition(1, 2), 2, (2,)))},
        brokers={1: replace(broker(1), is_fenced=True)},
    )
)


def said(old: MetadataImage, new: MetadataImage) -> dict[int, list[Instruction]]:
    return farewells(old, new, difference(old, new), "INSIDE")


def test_it_hears_who_is_alive_and_who_leads_under_the_broker_epoch_it_had() -> None:
    (requests,) = said(BEFORE, AFTER).values()
    assert kinds(requests) == [UpdateMetadataRequest, LeaderAndIsrRequest, UpdateMetadataRequest]
    leadership = requests[1]
    assert isinstance(leadership, LeaderAndIsrRequest)
    assert leadership.broker_epoch == 5
    assert leadership.topic_states[0].partition_states[0].leader == 2


def test_a_new_controller_tells_everything_to_those_who_are_out() -> None:
    assert kinds(said(MetadataImage(), AFTER)[1]) == [UpdateMetadataRequest, LeaderAndIsrRequest]


def test_nothing_is_said_to_those_who_have_left_long_ago_or_in_order() -> None:
    stopping = BEFORE.apply(ImageChange(brokers={1: replace(broker(1), is_shutting_down=True)}))
    assert said(stopping, AFTER) == {}
    long_gone = replace(broker(1), is_fenced=True, endpoints={})
    assert said(MetadataImage(), AFTER.apply(ImageChange(brokers={1: long_gone}))) == {}


def test_a_new_controller_knows_where_it_last_saw_them() -> None:
    known = known_brokers.recall(known_brokers.remember({1: broker(1)}).data)
    assert known_brokers.reachable(known, {1: broker(1)})[1].endpoints == broker(1).endpoints
    assert known_brokers.reachable(known, {})[1].endpoints == {}


class Brokers:
    def __init__(self) -> None:
        self.tried = 0
        self.is_gone = False
        self.code = ErrorCode.NONE
        self.depositions = 0

    async def send(self, broker_id: int, instruction: Instruction) -> UpdateMetadataResponse:
        self.tried += 1
        if self.is_gone:
            raise ConnectionError("refused")
        return UpdateMetadataResponse(error_code=self.code)

    def deposed(self) -> None:
        self.depositions += 1


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
async def channels(brokers: Brokers) -> AsyncIterator[BrokerChannels]:
    channels = BrokerChannels(brokers.send, brokers.deposed)
    yield channels
    channels.close()


REQUESTS = [UpdateMetadataRequest(), UpdateMetadataRequest()]


async def test_a_farewell_is_tried_once(channels: BrokerChannels, brokers: Brokers) -> None:
    brokers.is_gone = True
    channels.take_leave(1, REQUESTS)
    await eventually(lambda: brokers.tried)
    await asyncio.sleep(0)
    assert brokers.tried == 1


async def test_a_broker_that_lives_hears_all_of_it(
    channels: BrokerChannels, brokers: Brokers
) -> None:
    channels.take_leave(1, REQUESTS)
    await eventually(lambda: brokers.tried == 2)


async def test_a_controller_learns_from_it_that_it_was_deposed_itself(
    channels: BrokerChannels, brokers: Brokers
) -> None:
    brokers.code = ErrorCode.STALE_CONTROLLER_EPOCH
    channels.take_leave(1, REQUESTS)
    await eventually(lambda: brokers.depositions == 1)
    assert brokers.tried == 1


async def test_a_broker_that_is_back_does_not_hear_it(
    channels: BrokerChannels, brokers: Brokers
) -> None:
    channels.take_leave(1, REQUESTS)
    channels.forget(1)
    channels.tell(1, [UpdateMetadataRequest()])
    await channels.flushed()
    assert brokers.tried == 1
