"""The controller's queues to its brokers: in order, until answered, or until the broker is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from floodmark import supervised
from floodmark.controller import channels
from floodmark.controller.channels import BrokerChannels
from floodmark.controller.instructions import Instruction
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kit.waiting import eventually


def request(number: int) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(controller_id=number)


class Brokers:
    """Those that take instructions; `failures` are raised first, `codes` answered then."""

    def __init__(self) -> None:
        self.got: list[tuple[int, int]] = []
        self.failures: dict[int, int] = {}
        self.silent: set[int] = set()
        self.code = ErrorCode.NONE
        self.depositions = 0

    async def send(self, broker_id: int, instruction: Instruction) -> UpdateMetadataResponse:
        if broker_id in self.silent:
            await asyncio.Event().wait()
        if self.failures.get(broker_id, 0):
            self.failures[broker_id] -= 1
            raise ConnectionError("refused")
        self.got.append((broker_id, instruction.controller_id))
        return UpdateMetadataResponse(error_code=self.code)

    def deposed(self) -> None:
        self.depositions += 1


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
async def told(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerChannels]:
    monkeypatch.setattr(channels, "RETRY_S", 0.0)
    told = BrokerChannels(brokers.send, brokers.deposed)
    yield told
    told.close()


async def test_instructions_come_in_order_and_each_until_it_is_answered(told, brokers) -> None:
    brokers.failures[2] = 3
    told.tell(2, [request(1), request(2)])
    told.tell(2, [request(3)])
    await told.flushed()
    assert brokers.got == [(2, 1), (2, 2), (2, 3)]


async def test_a_broker_that_does_not_answer_holds_up_no_other(told, brokers) -> None:
    brokers.silent.add(2)
    told.tell(2, [request(1)])
    told.tell(3, [request(2)])
    await eventually(lambda: brokers.got)
    assert brokers.got == [(3, 2)]


async def test_nothing_old_reaches_a_process_that_took_the_place_of_another(told, brokers) -> None:
    brokers.silent.add(2)
    told.tell(2, [request(1), request(2)])
    await asyncio.sleep(0)
    told.forget(2)
    brokers.silent.clear()
    told.tell(2, [request(3)])
    await told.flushed()
    assert brokers.got == [(2, 3)]


async def test_a_controller_that_was_deposed_learns_of_it(told, brokers) -> None:
    brokers.code = ErrorCode.STALE_CONTROLLER_EPOCH
    told.tell(2, [request(1)])
    await told.flushed()
    assert brokers.depositions == 1


async def test_a_broker_that_cannot_be_reached_does_not_fill_the_log(told, brokers, caplog) -> None:
    brokers.failures[2] = 20
    told.tell(2, [request(1)])
    await told.flushed()
    assert len(caplog.records) == 5, "at the 1st, 2nd, 4th, 8th and 16th time"


async def test_a_defect_does_not_end_a_channel(brokers, monkeypatch, caplog) -> None:
    monkeypatch.setattr(supervised, "AFTER_DEFECT_S", 0.0)
    defects = [ValueError("a defect")]

    def answered(broker_id: int, instruction: Instruction, answer: object) -> None:
        if defects:
            raise defects.pop()

    told = BrokerChannels(brokers.send, brokers.deposed, answered)
    told.tell(2, [request(1), request(2)])
    await told.flushed()
    told.close()
    assert brokers.got == [(2, 1), (2, 1), (2, 2)]
    assert "bug in controller-to-2" in caplog.text
