"""Refusals that are made up from the definitions, for every API and version."""

from random import Random
from typing import Any

import pytest

from floodmark.apis.error_answers import ALWAYS_AT_THE_TOP, error_answer
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.compiler import decode, encode
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages import request_class, response_class
from floodmark.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from floodmark.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from floodmark.wire.schema import schema_of
from fuzz_kit.messages import MessageMaker

CODE = ErrorCode.NOT_LEADER_OR_FOLLOWER


def common_versions(api_key: ApiKey) -> range:
    first, last = schema_of(request_class(api_key)).versions
    return range(first, last + 1)


def codes_in(value: Any) -> list[int]:
    found = []
    for field in schema_of(type(value)).fields:
        inner = getattr(value, field.name)
        if field.name in ("error_code", "partition_error_code"):
            found.append(inner)
        elif field.kind == "array" and not isinstance(field.element, str):
            for item in inner or ():
                found += codes_in(item)
    return found


@pytest.mark.parametrize("api_key", ApiKey)
def test_every_api_can_be_refused_in_every_version(api_key: ApiKey) -> None:
    maker = MessageMaker(Random(api_key), array_sizes=(1, 2), null_share=0)
    for version in common_versions(api_key):
        request = maker.make(request_class(api_key), version)
        answer = error_answer(api_key, version, request, CODE)
        read = decode(response_class(api_key), encode(answer, version), version)
        assert CODE in codes_in(read)
        assert set(codes_in(read)) <= {CODE, ErrorCode.NONE}


def test_a_refused_produce_names_each_partition_that_was_asked_for() -> None:
    request = ProduceRequest(
        acks=-1,
        topic_data=[
            TopicProduceData(name="a", partition_data=[PartitionProduceData(index=7)]),
            TopicProduceData(
                name="b",
                partition_data=[PartitionProduceData(index=0), PartitionProduceData(index=1)],
            ),
        ],
    )
    answer: Any = error_answer(ApiKey.PRODUCE, 9, request, CODE)
    assert [
        (topic.name, partition.index, partition.error_code)
        for topic in answer.responses
        for partition in topic.partition_responses
    ] == [("a", 7, CODE), ("b", 0, CODE), ("b", 1, CODE)]


def test_a_refused_fetch_carries_the_code_where_clients_look_for_it() -> None:
    request = FetchRequest(topics=[FetchTopic(topic="a", partitions=[FetchPartition(partition=3)])])
    answer: Any = error_answer(ApiKey.FETCH, 12, request, CODE)
    (partition,) = answer.responses[0].partitions
    assert (answer.error_code, partition.partition_index, partition.error_code) == (0, 3, CODE)
    for session_error in ALWAYS_AT_THE_TOP:
        answer = error_answer(ApiKey.FETCH, 12, request, session_error)
        assert (answer.error_code, answer.responses) == (session_error, [])
