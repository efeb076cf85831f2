"""What the fuzz run found once, each as small as it gets."""

from uuid import uuid4

from floodmark.coordinators.groups.offset_requests import LAST_TIMESTAMP_MS, commit
from floodmark.coordinators.groups.records import encode_record
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from floodmark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fuzz_kit.raw_client import RawClient


def test_an_endless_retention_of_a_commit_can_be_written_down():
    request = OffsetCommitRequest(
        group_id="g",
        retention_time_ms=2**63 - 1,
        topics=[
            OffsetCommitRequestTopic(
                name="t", partitions=[OffsetCommitRequestPartition(committed_offset=1)]
            )
        ],
    )
    write = commit(request, 4096, None, now_ms=1_700_000_000_000)
    (record,) = write.records
    assert record.value.expire_timestamp_ms == LAST_TIMESTAMP_MS
    assert encode_record(record)


def test_a_topic_id_in_a_version_that_cannot_ask_by_id_is_refused(floodmark):
    with RawClient(floodmark.bootstrap_servers) as client:
        for version in (10, 11):
            request = MetadataRequest(topics=[MetadataRequestTopic(name="t", topic_id=uuid4())])
            response = client.ask(request, version)
            assert [t.error_code for t in response.topics] == [ErrorCode.INVALID_REQUEST]
