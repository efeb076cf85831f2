"""Errors are found in every answer that can carry one, wherever in it they stand."""

from typing import Any

import pytest

from floodmark.apis.dispatch import SERVED
from floodmark.apis.failures import Failures, finder_of
from floodmark.wire import messages
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from floodmark.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from floodmark.wire.schema import schema_of


def filled(cls: type[Any], error_code: int) -> tuple[Any, int]:
    """A message with two items in every list and this error in every place, and their number."""
    message, count = cls(), 0
    for field in schema_of(cls).fields:
        if field.name == "error_code":
            message.error_code = error_code
            count += 1
        elif field.kind in ("array", "struct") and isinstance(field.element, type):
            item, of_item = filled(field.element, error_code)
            many = field.kind == "array"
            setattr(message, field.name, [item, item] if many else item)
            count += of_item * (2 if many else 1)
    return message, count


@pytest.mark.parametrize("api_key", SERVED, ids=lambda key: key.name)
def test_all_errors_of_an_answer_are_counted(api_key: ApiKey) -> None:
    failures = Failures()
    response_class = messages.response_class(api_key)
    count_errors = failures.counter(int(api_key), response_class)
    failing, count = filled(response_class, ErrorCode.UNKNOWN_SERVER_ERROR)
    if count_errors is None:
        assert count == 0
        return
    count_errors(filled(response_class, ErrorCode.NONE)[0])
    count_errors(response_class())
    assert failures.counts == {}
    count_errors(failing)
    assert failures.counts == {(int(api_key), int(ErrorCode.UNKNOWN_SERVER_ERROR)): count}


def test_only_the_partition_that_failed_counts() -> None:
    find = finder_of(FetchResponse)
    assert find is not None
    found: list[int] = []
    topic = FetchableTopicResponse(partitions=[PartitionData(error_code=1), PartitionData()])
    find(FetchResponse(responses=[topic]), found)
    assert found == [ErrorCode.OFFSET_OUT_OF_RANGE]


def test_an_error_of_a_topic_and_of_its_partition_are_two() -> None:
    failures = Failures()
    count_errors = failures.counter(int(ApiKey.METADATA), MetadataResponse)
    assert count_errors is not None
    partition = MetadataResponsePartition(error_code=ErrorCode.LEADER_NOT_AVAILABLE)
    topic = MetadataResponseTopic(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION)
    count_errors(MetadataResponse(topics=[topic, MetadataResponseTopic(partitions=[partition])]))
    assert set(failures.counts) == {
        (int(ApiKey.METADATA), int(ErrorCode.INVALID_TOPIC_EXCEPTION)),
        (int(ApiKey.METADATA), int(ErrorCode.LEADER_NOT_AVAILABLE)),
    }
