"""The fault switch by itself, with handlers made for the test."""

from typing import Any

import pytest

from floodmark.apis.access import NOTHING
from floodmark.apis.route import Route
from floodmark.network.request_channel import CloseConnection
from floodmark.promise import Promise
from floodmark.testing.faults import Faults
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.init_producer_id import InitProducerIdRequest
from floodmark.wire.messages.produce import ProduceRequest


def route(api_key: ApiKey, version: int) -> Route:
    def unused(*_: Any) -> Any:
        raise AssertionError("a fault needs neither codec nor handler of the route")

    return Route(api_key, version, unused, unused, unused, object, unused, NOTHING, 0)


INIT = route(ApiKey.INIT_PRODUCER_ID, 4)


def test_the_next_requests_fail_and_then_all_is_well() -> None:
    faults = Faults()
    faults.fail("INIT_PRODUCER_ID", "COORDINATOR_LOAD_IN_PROGRESS", times=2)
    request = InitProducerIdRequest()
    answers = [faults.intercept(INIT, request, lambda: "handled") for _ in range(3)]
    assert [getattr(answer, "error_code", answer) for answer in answers] == [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        "handled",
    ]
    assert faults.struck[ApiKey.INIT_PRODUCER_ID] == 2


def test_other_apis_are_left_alone() -> None:
    faults = Faults()
    faults.fail(ApiKey.FETCH, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert faults.intercept(INIT, InitProducerIdRequest(), lambda: "handled") == "handled"


def test_a_produce_that_expects_no_answer_is_refused_by_closing() -> None:
    faults = Faults()
    faults.fail("PRODUCE", "NOT_LEADER_OR_FOLLOWER")
    with pytest.raises(CloseConnection):
        faults.intercept(route(ApiKey.PRODUCE, 9), ProduceRequest(acks=0), lambda: None)


def test_a_dropped_request_is_not_handled() -> None:
    faults = Faults()
    faults.drop("INIT_PRODUCER_ID")
    handled: list[int] = []
    with pytest.raises(CloseConnection):
        faults.intercept(INIT, InitProducerIdRequest(), lambda: handled.append(1))
    assert handled == []


async def test_a_lost_answer_leaves_the_request_handled() -> None:
    faults = Faults()
    faults.drop("INIT_PRODUCER_ID", handled=True)
    handled: list[int] = []
    with pytest.raises(CloseConnection):
        await faults.intercept(INIT, InitProducerIdRequest(), lambda: handled.append(1))
    assert handled == [1]


async def test_a_delayed_request_is_handled_later_and_awaits_what_the_handler_awaits() -> None:
    faults = Faults()
    faults.delay("INIT_PRODUCER_ID", 0.001)
    promised: Promise[str] = Promise()
    waiting = faults.intercept(INIT, InitProducerIdRequest(), lambda: promised)
    assert isinstance(waiting, Promise)
    promised.set("handled")
    assert await waiting == "handled"


def test_clear_disarms() -> None:
    faults = Faults()
    faults.drop("INIT_PRODUCER_ID", times=5)
    faults.clear()
    assert faults.intercept(INIT, InitProducerIdRequest(), lambda: "handled") == "handled"


def test_mistakes_in_the_test_are_told_at_once() -> None:
    faults = Faults()
    with pytest.raises(ValueError, match="is not a valid ApiKey"):
        faults.drop("NO_SUCH_API")
    with pytest.raises(ValueError, match="cannot be negative"):
        faults.delay("FETCH", -1)
    with pytest.raises(ValueError, match="at least once"):
        faults.drop("FETCH", times=0)
