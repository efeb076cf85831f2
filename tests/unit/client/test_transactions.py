"""The transactional producer when requests fail, get lost or come out of turn, in both ways."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from floodmark.client.admin.admin import Admin
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.consumer.group_offsets import GroupMetadata, OffsetAndMetadata
from floodmark.client.errors import KafkaError, RequestTimedOut
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ConsumerSettings, ProducerSettings, SettingsError
from floodmark.coordinators.transactions.listing import TransactionFilter
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.numbers import UpgradeType


@pytest.fixture(params=[0, 2], ids=["first-protocol", "second-protocol"])
async def broker(floodmark: BrokerThread, request: pytest.FixtureRequest) -> BrokerThread:
    async with Admin(floodmark.bootstrap_servers) as admin:
        if request.param != (await admin.describe_features()).finalized["transaction.version"]:
            await admin.update_features(
                {"transaction.version": request.param}, upgrade_type=UpgradeType.UNSAFE_DOWNGRADE
            )
    return floodmark


@pytest.fixture
async def producer(broker: BrokerThread) -> AsyncIterator[Producer]:
    async with Producer(broker.bootstrap_servers, settings()) as producer:
        await producer.init_transactions()
        yield producer


def settings(**changes: object) -> ProducerSettings:
    values: dict[str, object] = {
        "transactional_id": "tx",
        "linger_ms": 0,
        "retry_backoff_ms": 1,
        "max_block_ms": 10_000,
    }
    return ProducerSettings(**(values | changes))  # type: ignore[arg-type]


async def until_marked(broker: BrokerThread) -> None:
    """A commit is answered when it is decided; its markers may come a little later."""

    async def is_marked() -> bool:
        listing = broker.broker.services.transactions.search(TransactionFilter())
        return not any(transaction.is_prepared for transaction in listing.transactions)

    while not broker.call(is_marked()):  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.001)


async def committed(broker: BrokerThread, topic: str) -> list[bytes | None]:
    await until_marked(broker)
    reading = ConsumerSettings(isolation_level="read_committed", auto_offset_reset="earliest")
    partition = TopicPartition(topic, 0)
    values: list[bytes | None] = []
    async with Consumer(broker.bootstrap_servers, reading) as consumer:
        await consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            for records in (await consumer.poll()).values():
                values += [record.value for record in records]
    return values


async def commit_one(producer: Producer, topic: str, value: bytes) -> None:
    async with producer.transaction():
        await producer.send(topic, value)


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("PRODUCE", "NOT_ENOUGH_REPLICAS"),
        ("PRODUCE", "NOT_LEADER_OR_FOLLOWER"),
        ("ADD_PARTITIONS_TO_TXN", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("ADD_PARTITIONS_TO_TXN", "CONCURRENT_TRANSACTIONS"),
        ("ADD_OFFSETS_TO_TXN", "NOT_COORDINATOR"),
        ("TXN_OFFSET_COMMIT", "COORDINATOR_NOT_AVAILABLE"),
        ("END_TXN", "NOT_COORDINATOR"),
        ("END_TXN", "CONCURRENT_TRANSACTIONS"),
    ],
)
async def test_what_may_succeed_later_is_tried_again(
    broker: BrokerThread, producer: Producer, floodmark_topic: str, api: str, error: str
) -> None:
    broker.faults.fail(api, error, times=2)
    partition = TopicPartition(floodmark_topic, 0)
    for number in range(3):
        async with producer.transaction():
            await producer.send(floodmark_topic, b"%d" % number)
            await producer.send_offsets_to_transaction({partition: number}, "group")
    assert await committed(broker, floodmark_topic) == [b"0", b"1", b"2"]
    async with Admin(broker.bootstrap_servers) as admin:
        assert await admin.list_group_offsets("group") == {partition: OffsetAndMetadata(2)}


@pytest.mark.parametrize("handled", [False, True])
@pytest.mark.parametrize("api", ["PRODUCE", "ADD_PARTITIONS_TO_TXN", "END_TXN"])
async def test_a_lost_request_or_answer_changes_nothing(
    broker: BrokerThread, producer: Producer, floodmark_topic: str, api: str, handled: bool
) -> None:
    await commit_one(producer, floodmark_topic, b"0")
    broker.faults.drop(api, handled=handled)
    await commit_one(producer, floodmark_topic, b"1")
    await commit_one(producer, floodmark_topic, b"2")
    assert await committed(broker, floodmark_topic) == [b"0", b"1", b"2"]


async def test_a_record_that_fails_forbids_the_commit_and_the_next_transaction_goes_on(
    broker: BrokerThread, producer: Producer, floodmark_topic: str
) -> None:
    await commit_one(producer, floodmark_topic, b"0")
    producer.begin_transaction()
    await producer.send_and_wait(floodmark_topic, b"never")
    broker.faults.fail("PRODUCE", "INVALID_RECORD")
    lost = await producer.send(floodmark_topic, b"lost")
    with pytest.raises(KafkaError):
        await lost
    for refused in (producer.commit_transaction(), producer.send(floodmark_topic, b"never")):
        with pytest.raises(KafkaError) as error:
            await refused
        assert error.value.code is ErrorCode.INVALID_RECORD
    await producer.abort_transaction()
    await commit_one(producer, floodmark_topic, b"1")
    assert await committed(broker, floodmark_topic) == [b"0", b"1"]


async def test_a_gap_in_the_numbers_ends_with_the_transaction(
    broker: BrokerThread, producer: Producer, floodmark_topic: str
) -> None:
    broker.faults.fail("PRODUCE", "OUT_OF_ORDER_SEQUENCE_NUMBER")
    with pytest.raises(KafkaError) as error:
        await commit_one(producer, floodmark_topic, b"never")
    assert error.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    await commit_one(producer, floodmark_topic, b"seen")
    assert await committed(broker, floodmark_topic) == [b"seen"]


async def test_what_waits_when_a_transaction_is_aborted_is_never_sent(
    broker: BrokerThread, floodmark_topic: str
) -> None:
    async with Producer(broker.bootstrap_servers, settings(linger_ms=60_000)) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        waiting = await producer.send(floodmark_topic, b"never")
        await producer.abort_transaction()
        with pytest.raises(KafkaError) as error:
            await waiting
        assert error.value.code is ErrorCode.TRANSACTION_ABORTABLE
        async with producer.transaction():
            await producer.send(floodmark_topic, b"seen")
    assert await committed(broker, floodmark_topic) == [b"seen"]


async def test_a_commit_that_timed_out_can_be_asked_for_again(
    broker: BrokerThread, floodmark_topic: str
) -> None:
    async with Producer(broker.bootstrap_servers, settings(max_block_ms=300)) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send_and_wait(floodmark_topic, b"seen")
        broker.faults.fail("END_TXN", "COORDINATOR_LOAD_IN_PROGRESS", times=10_000)
        with pytest.raises(RequestTimedOut):
            await producer.commit_transaction()
        with pytest.raises(RuntimeError, match="being committed"):
            await producer.abort_transaction()
        with pytest.raises(RuntimeError, match="being committed"):
            await producer.init_transactions()
        broker.faults.clear()
        await producer.commit_transaction()
    assert await committed(broker, floodmark_topic) == [b"seen"]


async def test_records_that_were_not_delivered_in_time_forbid_the_commit(
    broker: BrokerThread, floodmark_topic: str
) -> None:
    async with Producer(broker.bootstrap_servers, settings(delivery_timeout_ms=200)) as producer:
        await producer.init_transactions()
        broker.faults.fail("PRODUCE", "NOT_ENOUGH_REPLICAS", times=10_000)
        with pytest.raises(KafkaError) as error:
            await commit_one(producer, floodmark_topic, b"never")
        # Not retriable: only an abort, which the block has done, helps.
        assert error.value.code is ErrorCode.TRANSACTION_ABORTABLE
        broker.faults.clear()
        await commit_one(producer, floodmark_topic, b"seen")
    assert await committed(broker, floodmark_topic) == [b"seen"]


async def test_a_commit_that_the_coordinator_refuses_can_be_aborted(
    broker: BrokerThread, producer: Producer, floodmark_topic: str
) -> None:
    broker.faults.fail("END_TXN", "TRANSACTION_ABORTABLE")
    with pytest.raises(KafkaError) as error:
        await commit_one(producer, floodmark_topic, b"never")
    assert error.value.code is ErrorCode.TRANSACTION_ABORTABLE
    await commit_one(producer, floodmark_topic, b"seen")
    assert await committed(broker, floodmark_topic) == [b"seen"]


async def test_a_producer_that_is_cancelled_leaves_no_transaction_open(
    broker: BrokerThread, floodmark_topic: str
) -> None:
    sent = asyncio.Event()

    async def produce() -> None:
        async with Producer(broker.bootstrap_servers, settings()) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send_and_wait(floodmark_topic, b"never")
                sent.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(produce())
    await sent.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with Admin(broker.bootstrap_servers) as admin:
        (listed,) = await admin.list_transactions()
    assert listed.state in ("PrepareAbort", "CompleteAbort")


async def test_a_member_that_lost_its_partitions_cannot_commit_their_offsets(
    broker: BrokerThread, producer: Producer, floodmark_topic: str
) -> None:
    stranger = GroupMetadata("group", generation_id=3, member_id="gone")
    with pytest.raises(KafkaError) as error:
        async with producer.transaction():
            await producer.send(floodmark_topic, b"never")
            partition = TopicPartition(floodmark_topic, 0)
            await producer.send_offsets_to_transaction({partition: 1}, stranger)
    assert error.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
    await commit_one(producer, floodmark_topic, b"seen")
    assert await committed(broker, floodmark_topic) == [b"seen"]


async def test_calls_out_of_turn_say_what_is_missing(
    floodmark: BrokerThread, floodmark_topic: str
) -> None:
    async with Producer(floodmark.bootstrap_servers, settings()) as producer:
        with pytest.raises(RuntimeError, match="init_transactions first"):
            producer.begin_transaction()
        await producer.init_transactions()
        with pytest.raises(RuntimeError, match="begin_transaction first"):
            await producer.send(floodmark_topic, b"never")
        with pytest.raises(RuntimeError, match="begin_transaction first"):
            await producer.commit_transaction()
        producer.begin_transaction()
        with pytest.raises(RuntimeError, match="is open"):
            producer.begin_transaction()
        await producer.abort_transaction()
    async with Producer(floodmark.bootstrap_servers) as plain:
        with pytest.raises(ValueError, match=r"transactional\.id"):
            plain.begin_transaction()


@pytest.mark.parametrize("changes", [{"acks": 1}, {"enable_idempotence": False}, {"retries": 0}])
def test_a_transactional_id_needs_idempotence(changes: dict[str, int]) -> None:
    with pytest.raises(SettingsError):
        settings(**changes)


async def test_a_block_that_runs_out_of_time_aborts_its_transaction(
    broker: BrokerThread, producer: Producer, floodmark_topic: str
) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2), producer.transaction():
            await producer.send_and_wait(floodmark_topic, b"late")
            await asyncio.sleep(60)
    async with producer.transaction():
        await producer.send(floodmark_topic, b"next")
    assert await committed(broker, floodmark_topic) == [b"next"]


async def test_a_cancelled_producer_does_not_wait_for_its_last_records(
    broker: BrokerThread, floodmark_topic: str
) -> None:
    loop = asyncio.get_running_loop()

    async def work() -> None:
        async with Producer(broker.bootstrap_servers, settings()) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                broker.faults.delay("PRODUCE", 20)
                await producer.send_and_wait(floodmark_topic, b"x")

    task = asyncio.create_task(work())
    while not broker.faults.struck["PRODUCE"]:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.01)
    began = loop.time()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert loop.time() - began < 10


async def test_a_record_that_waited_for_room_does_not_join_a_transaction_that_is_over(
    broker: BrokerThread, floodmark_topic: str
) -> None:
    changes = settings(buffer_memory=500, batch_size=1)
    async with Producer(broker.bootstrap_servers, changes) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send_and_wait(floodmark_topic, b"first")
        broker.faults.delay("PRODUCE", 0.3)
        await producer.send(floodmark_topic, b"x" * 300)
        late = asyncio.create_task(producer.send_and_wait(floodmark_topic, b"y" * 300))
        await asyncio.sleep(0.05)
        await producer.abort_transaction()
        with pytest.raises(RuntimeError, match=r"is (being aborted|not open)"):
            await late
