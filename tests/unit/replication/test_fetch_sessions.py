"""Incremental fetch sessions (KIP-227)."""

from itertools import count

from floodmark.replication import fetch_sessions
from floodmark.replication.fetch_sessions import FetchSessions, FetchTarget
from floodmark.wire.errors import ErrorCode


def sessions(slots=10, eviction_ms=1000) -> FetchSessions:
    return FetchSessions(slots, eviction_ms, count(1).__next__)


def target(partition: int, offset: int = 0) -> FetchTarget:
    return FetchTarget("t", partition, offset, 1000)


def plan(held, session_id, epoch, targets=(), forgotten=(), now_ms=0.0):
    return held.plan(
        session_id, epoch, list(targets), list(forgotten), uses_topic_ids=False, now_ms=now_ms
    )


def test_a_session_remembers_partitions_and_takes_changes():
    held = sessions()
    first = plan(held, 0, 0, [target(0), target(1)])
    assert first.session_id == 1 and not first.is_incremental
    second = plan(held, 1, 1, [target(1, offset=7)])
    assert second.is_incremental
    assert [(t.partition, t.fetch_offset) for t in second.targets] == [(0, 0), (1, 7)]
    third = plan(held, 1, 2, [target(2)], [("t", 0)])
    assert [t.partition for t in third.targets] == [1, 2]


def test_an_unknown_session_and_a_wrong_epoch_are_refused():
    held = sessions()
    assert plan(held, 5, 1).error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    opened = plan(held, 0, 0, [target(0)])
    wrong = plan(held, opened.session_id, 2)
    assert wrong.error_code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_keeps_to_names_or_to_ids():
    held = sessions()
    opened = plan(held, 0, 0, [target(0)])
    mixed = held.plan(opened.session_id, 1, [], [], uses_topic_ids=True, now_ms=0)
    assert mixed.error_code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_final_epoch_closes_the_session():
    held = sessions()
    opened = plan(held, 0, 0, [target(0)])
    assert plan(held, opened.session_id, -1, [target(0)]).session_id == 0
    assert len(held) == 0


def test_without_a_free_slot_a_client_is_served_without_a_session():
    held = sessions(slots=1, eviction_ms=1000)
    plan(held, 0, 0, [target(0)], now_ms=0)
    assert plan(held, 0, 0, [target(0)], now_ms=500).session_id == 0
    assert plan(held, 0, 0, [target(0)], now_ms=1500).session_id != 0
    assert len(held) == 1


def test_partitions_that_were_served_go_last():
    held = sessions()
    first = plan(held, 0, 0, [target(0), target(1)])
    first.sent([first.targets[0]])
    assert [t.partition for t in plan(held, 1, 1).targets] == [1, 0]


def test_only_news_is_sent_again():
    wanted = target(0)
    told = {"high_watermark": 5, "log_start_offset": 0, "last_stable_offset": 5}
    assert wanted.is_news(error=False, has_records=False, **told)
    assert not wanted.is_news(error=False, has_records=False, **told)
    assert wanted.is_news(error=False, has_records=True, **told)
    assert wanted.is_news(error=True, has_records=False, **told)
    assert wanted.is_news(error=False, has_records=False, **told)


def test_a_session_that_grows_beyond_a_request_has_to_begin_again():
    held = FetchSessions(10, 1000, count(1).__next__, most_partitions=3)
    opened = plan(held, 0, 0, [target(0), target(1)])
    assert plan(held, opened.session_id, 1, [target(2)]).error_code is ErrorCode.NONE
    grown = plan(held, opened.session_id, 2, [target(3)])
    assert grown.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(held) == 0


def test_what_all_sessions_keep_is_bounded(monkeypatch):
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS_KEPT", 3)
    held = sessions()
    assert plan(held, 0, 0, [target(0), target(1)]).session_id != 0
    late = plan(held, 0, 0, [target(0), target(1)])
    assert (late.session_id, len(late.targets)) == (0, 2)
    assert plan(held, 0, 0, [target(0)]).session_id != 0


def test_what_sessions_keep_is_bounded_as_they_grow(monkeypatch):
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS_KEPT", 3)
    held = sessions()
    opened = [plan(held, 0, 0, [target(0)]).session_id for _ in range(2)]
    assert plan(held, opened[0], 1, [target(1)]).session_id == opened[0]
    grown = plan(held, opened[1], 1, [target(1)])
    assert grown.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert held.partitions_cached() == 2
    assert plan(held, opened[0], 2).session_id == opened[0], "the other goes on"


def test_names_that_cannot_be_topics_are_not_kept():
    held = sessions()
    long = FetchTarget("x" * 32_000, 0, 0, 1000)
    begun = plan(held, 0, 0, [long, target(0)])
    assert (begun.session_id, len(begun.targets)) == (0, 2)
    opened = plan(held, 0, 0, [target(0)])
    grown = plan(held, opened.session_id, 1, [long])
    assert grown.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(held) == 0
