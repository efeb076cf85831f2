"""What the fuzz run found once, each as small as it gets."""

from floodmark.coordinators.groups.offset_requests import LAST_TIMESTAMP_MS, commit
from floodmark.coordinators.groups.records import encode_record
from floodmark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


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
