"""Topics page by page: cursors that lead on, and cursors that lead nowhere."""

from collections.abc import Iterator

import pytest

from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    RequestCursor,
    TopicRequest,
)
from fuzz_kit.raw_client import RawClient

EVERY_PARTITION = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    for name, count in (("a", 3), ("b", 2), ("c", 1)):
        floodmark.create_topic(name, count)
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client


@pytest.mark.parametrize("limit", [-1, 1, 2, 3, 4, 5, 6, 2000])
@pytest.mark.parametrize("names", [(), ("c", "a", "b", "a")])
def test_following_the_cursors_shows_every_partition_once(
    client: RawClient, names: tuple[str, ...], limit: int
) -> None:
    seen = []
    cursor = None
    for _ in range(len(EVERY_PARTITION)):
        page = ask(client, names, cursor, limit)
        seen += partitions(page)
        assert len(partitions(page)) <= max(limit, 1)
        if page.next_cursor is None:
            break
        cursor = at(page.next_cursor.topic_name, page.next_cursor.partition_index)
    else:
        pytest.fail("the last page has a cursor")
    assert seen == EVERY_PARTITION


@pytest.mark.parametrize("index", [-1, -2, -4, -(2**31)])
def test_a_cursor_before_the_first_partition_is_an_invalid_request(
    client: RawClient, index: int
) -> None:
    page = ask(client, ("a", "b"), at("a", index), 10)
    assert [(t.name, t.error_code, t.partitions) for t in page.topics] == [
        ("a", ErrorCode.INVALID_REQUEST, []),
        ("b", ErrorCode.INVALID_REQUEST, []),
    ]
    assert ask(client, (), at("a", index), 10).topics == []


def test_a_cursor_at_a_topic_that_was_not_asked_for_is_an_invalid_request(
    client: RawClient,
) -> None:
    page = ask(client, ("a", "c"), at("b", 0), 10)
    assert {t.error_code for t in page.topics} == {ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize("index", [3, 4, 99, 2**31 - 1])
def test_a_cursor_behind_the_last_partition_goes_on_with_the_next_topic(
    client: RawClient, index: int
) -> None:
    page = ask(client, (), at("a", index), 2)
    assert partitions(page) == [("b", 0), ("b", 1)]
    assert page.next_cursor is not None
    assert (page.next_cursor.topic_name, page.next_cursor.partition_index) == ("c", 0)


@pytest.mark.parametrize("names", [(), ("aa", "b", "c")])
def test_a_cursor_may_name_a_topic_that_is_gone(client: RawClient, names: tuple[str, ...]) -> None:
    assert partitions(ask(client, names, at("aa", 7), 10)) == EVERY_PARTITION[3:]


def test_an_unknown_topic_is_told_among_the_known_ones(client: RawClient) -> None:
    page = ask(client, ("a", "aa", "b c", "c"), None, 10)
    assert [(t.name, t.error_code) for t in page.topics] == [
        ("a", ErrorCode.NONE),
        ("aa", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("b c", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("c", ErrorCode.NONE),
    ]


def ask(
    client: RawClient, names: tuple[str, ...], cursor: RequestCursor | None, limit: int
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )
    response = client.ask(request, 0)
    assert isinstance(response, DescribeTopicPartitionsResponse)
    return response


def at(topic_name: str, partition_index: int) -> RequestCursor:
    return RequestCursor(topic_name=topic_name, partition_index=partition_index)


def partitions(page: DescribeTopicPartitionsResponse) -> list[tuple[str | None, int]]:
    return [(topic.name, p.partition_index) for topic in page.topics for p in topic.partitions]
