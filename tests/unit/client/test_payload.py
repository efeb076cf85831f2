"""A record that cannot be encoded is refused by `send`, before it can spoil its batch."""

from typing import Any

import pytest

from floodmark.client.producer.producer import Producer
from floodmark.records.record import decode_records
from floodmark.wire.api_keys import ApiKey
from kit.partition_leader import Leader, quick

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"value": "text"}, r"value must be bytes or None, not str.*text\.encode\(\)"),
    ({"value": {"a": 1}}, r"value must be bytes or None, not dict.*json\.dumps"),
    ({"value": 7}, r"value must be bytes or None, not int.*str\(number\)"),
    ({"key": "text"}, r"key must be bytes or None, not str"),
    ({"headers": [("a", "text")]}, r"value of header 'a' must be bytes or None, not str"),
    ({"headers": [(b"a", b"b")]}, r"name of a header must be str, not bytes"),
    ({"headers": [("a",)]}, r"a header must be a \(name, value\) pair"),
    ({"headers": ["ab"]}, r"a header must be a \(name, value\) pair"),
    ({"headers": {"a": b"b"}}, r"headers\.items\(\)"),
    ({"headers": "ab"}, r"headers must be \(name, value\) pairs, not str"),
    ({"partition": "0"}, r"the partition must be an integer, not str"),
    ({"timestamp_ms": 1.5}, r"timestamp_ms must be an integer.*int\(time\.time\(\) \* 1000\)"),
]


@pytest.mark.parametrize("send", ["send", "send_and_wait"])
@pytest.mark.parametrize(("arguments", "words"), WRONG)
async def test_a_record_of_the_wrong_type_is_refused_by_send(
    scripted, leader: Leader, send: str, arguments: dict[str, Any], words: str
) -> None:
    async with Producer(scripted.address, quick(linger_ms=10_000)) as producer:
        good = await producer.send("t", b"good")
        with pytest.raises(TypeError, match=words):
            await getattr(producer, send)("t", **{"value": b"bad", **arguments})
        await producer.flush()
        assert (await good).offset == 0
    assert leader.logs[0] == [b"good"]


async def test_a_topic_that_is_no_text_is_refused_and_not_asked_for(
    scripted, leader: Leader
) -> None:
    async with Producer(scripted.address, quick()) as producer:
        with pytest.raises(TypeError, match="the topic must be str, not bytes"):
            await producer.send(b"t", b"bad")  # type: ignore[arg-type]
        assert (await producer.send_and_wait("t", b"good")).offset == 0


@pytest.mark.parametrize(
    "arguments", [{"timestamp_ms": 2**63}, {"headers": [("\ud800", b"lone surrogate")]}]
)
async def test_a_record_that_does_not_fit_is_refused_by_send(
    scripted, leader: Leader, arguments: dict[str, Any]
) -> None:
    async with Producer(scripted.address, quick()) as producer:
        with pytest.raises(ValueError, match=r"64 bits|not valid Unicode"):
            await producer.send("t", b"bad", **arguments)


async def test_a_buffer_may_be_used_again_after_send(scripted, leader: Leader) -> None:
    buffer = bytearray(b"first")
    async with Producer(scripted.address, quick(linger_ms=10_000)) as producer:
        given: Any = buffer
        await producer.send("t", given, key=given, headers=[("h", given)])
        buffer[:] = b"other"
    data = scripted.seen[ApiKey.PRODUCE][0].topic_data[0].partition_data[0].records
    (record,) = decode_records(data)
    assert (record.key, record.value, record.headers) == (b"first", b"first", [("h", b"first")])
