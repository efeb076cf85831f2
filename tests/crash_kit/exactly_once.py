"""What must hold after transactional copies, with any client and after any crash.

Called by tests/crash/test_exactly_once.py, test_cluster_kills.py and
tests/conformance/java/test_copier_under_kills.py.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable

from crash_kit.committed_reader import Seen
from crash_kit.copier import ABORTED
from floodmark.client.admin.admin import Admin
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError
from floodmark.client.offsets import OffsetSpec

LONGEST_WAIT_S = 60


def check_copies(seen: Iterable[Seen], expected: Counter[bytes]) -> None:
    values = Counter(record.value for record in seen)
    assert ABORTED not in values, "an aborted record was read"
    assert not expected - values, "an input is missing"
    assert not values - expected, "an input was copied twice"


async def nothing_stays_open(bootstrap: str, source: str, target: str, group: str) -> None:
    """The copier's last transaction is aborted when its time is up; then nothing is pending, and
    the group has consumed all of `source`."""
    async with Admin(bootstrap) as admin:
        await _until_none_is_open(admin, target)
        committed = await admin.list_group_offsets(group)
        positions = {at.partition: committed[at].offset for at in committed}
        assert positions == await _ends(admin, source)


async def no_transaction_hangs(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap) as admin:
        await _until_none_is_open(admin, topic)


async def _until_none_is_open(admin: Admin, topic: str) -> None:
    deadline = time.monotonic() + LONGEST_WAIT_S
    while await _open_transactions(admin):
        assert time.monotonic() < deadline, "a transaction hangs"
        await asyncio.sleep(0.2)
    assert await _ends(admin, topic, read_committed=True) == await _ends(admin, topic)


async def _open_transactions(admin: Admin) -> list[str]:
    states = ("Ongoing", "PrepareCommit", "PrepareAbort")
    return [found.transactional_id for found in await admin.list_transactions(states=states)]


async def _ends(admin: Admin, topic: str, *, read_committed: bool = False) -> dict[int, int]:
    (described,) = await admin.describe_topics([topic])
    wanted = {
        TopicPartition(topic, at): OffsetSpec.LATEST for at in range(len(described.partitions))
    }
    found = await admin.list_offsets(wanted, read_committed=read_committed)
    offsets = {}
    for partition, listed in found.items():
        assert not isinstance(listed, KafkaError), listed
        offsets[partition.partition] = listed.offset
    return offsets
