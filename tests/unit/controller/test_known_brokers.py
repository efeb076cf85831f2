"""A new controller notices what happened to brokers while there was none."""

from __future__ import annotations

from floodmark.controller import known_brokers
from floodmark.metadata.image import BrokerInfo


def brokers(**epochs: int) -> dict[int, BrokerInfo]:
    return {int(name[1:]): BrokerInfo(int(name[1:]), epoch, {}) for name, epoch in epochs.items()}


def test_a_restart_under_the_controller_before_is_noticed():
    stored = known_brokers.remember(brokers(b1=10, b2=11, b3=12)).data
    registered = brokers(b1=10, b2=20, b4=21)
    changes = known_brokers.compare(known_brokers.recall(stored), registered)
    assert changes == ([registered[2]], [3], [registered[4]])


def test_of_those_that_restarted_one_that_may_have_lost_records_comes_first():
    """The last one in sync stays there, so it should be one that has everything."""
    registered = {
        1: BrokerInfo(1, 20, {}, unbroken_since=10),
        2: BrokerInfo(2, 22, {}, unbroken_since=21),
        3: BrokerInfo(3, 23, {}),
    }
    changes = known_brokers.compare(brokers(b1=10, b2=11, b3=12), registered)
    assert [broker.id for broker in changes.restarted] == [2, 3, 1]


def test_the_first_controller_knows_nobody():
    registered = brokers(b1=10)
    changes = known_brokers.compare(known_brokers.recall(b""), registered)
    assert changes == ([], [], [registered[1]])


def test_one_that_comes_back_is_new_and_its_last_epoch_is_still_known():
    known = {1: BrokerInfo(1, 10, {}, is_fenced=True)}
    recalled = known_brokers.recall(known_brokers.remember(known).data)
    registered = brokers(b1=20)
    assert known_brokers.compare(recalled, registered) == ([], [], [registered[1]])
    assert recalled == known
