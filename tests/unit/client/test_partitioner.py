"""Keys must go where every other Kafka client sends them."""

import random

import pytest

from floodmark.client.producer.partitioner import StickyPartitioner, murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_javas_result(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


def test_a_key_masks_the_sign_away() -> None:
    assert partition_for_key(b"21", 7) == (-973932308 & 0x7FFFFFFF) % 7


def test_keyless_records_stay_until_their_batch_is_closed_and_then_visit_every_partition() -> None:
    sticky = StickyPartitioner(random.Random(1))
    first = sticky.current("t", [0, 1, 2])
    assert sticky.current("t", [0, 1, 2]) == first
    visited = [first]
    for _ in range(2):
        sticky.advance("t")
        visited.append(sticky.current("t", [0, 1, 2]))
    assert sorted(visited) == [0, 1, 2]
