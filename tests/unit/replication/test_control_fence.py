"""Which control requests a broker obeys."""

from __future__ import annotations

from floodmark.replication.control_fence import ControlFence
from floodmark.wire.errors import ErrorCode


def test_a_request_for_an_earlier_life_of_the_broker_is_refused():
    fence = ControlFence()
    fence.broker_epoch = 7
    assert fence.check(1, 6) is ErrorCode.STALE_BROKER_EPOCH
    assert fence.check(1, 7) is ErrorCode.NONE
    assert fence.check(1, -1) is ErrorCode.NONE


def test_before_its_registration_a_broker_obeys_nothing_that_names_an_epoch():
    assert ControlFence().check(1, 6) is ErrorCode.STALE_BROKER_EPOCH


def test_a_controller_that_has_been_replaced_is_refused():
    fence = ControlFence()
    assert fence.check(4, -1) is ErrorCode.NONE
    assert fence.check(3, -1) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert fence.check(4, -1) is ErrorCode.NONE


def test_a_refused_request_does_not_raise_the_controller_epoch():
    fence = ControlFence()
    fence.broker_epoch = 7
    fence.check(9, 6)
    assert fence.check(4, 7) is ErrorCode.NONE
