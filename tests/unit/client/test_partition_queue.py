"""Order and numbering of a partition's batches, whatever happens to them on the way."""

from hypothesis import given, settings
from hypothesis import strategies as st

from floodmark.client.cluster.view import TopicPartition
from floodmark.client.producer.batch import ProducerBatch
from floodmark.client.producer.partition_queue import LAST_EPOCH, PartitionQueue, ProducerIdentity
from floodmark.records.record import Record

T0 = TopicPartition("t", 0)
FULL = 10_000


def queue_of(batches: int, *, idempotent: bool = True) -> PartitionQueue:
    """A queue with this many batches of one record each."""
    queue = PartitionQueue(T0, batch_size=FULL, idempotent=idempotent)
    for number in range(batches):
        queue.append(record(number), FULL, 0)
    return queue


def record(number: int) -> Record:
    return Record(0, 0, None, b"%d" % number, [])


def ready(queue: PartitionQueue) -> bool:
    at_ms = queue.ready_at_ms(0, hurry=True)
    return at_ms is not None and at_ms <= 1_000


def test_records_share_a_batch_until_it_is_full() -> None:
    queue = PartitionQueue(T0, batch_size=300, idempotent=True)
    _, first_opened = queue.append(record(0), 100, 0)
    _, second_opened = queue.append(record(1), 100, 0)
    _, third_opened = queue.append(record(2), 100, 0)
    assert (first_opened, second_opened, third_opened) == (True, False, True)


def test_a_batch_lingers_unless_it_is_full_or_somebody_hurries() -> None:
    queue = PartitionQueue(T0, batch_size=300, idempotent=True)
    queue.append(record(0), 100, 50)
    assert queue.ready_at_ms(10, hurry=False) == 60
    assert queue.ready_at_ms(10, hurry=True) == 50
    queue.append(record(1), 200, 50)
    assert queue.ready_at_ms(10, hurry=False) == 50


def test_without_idempotence_only_one_batch_is_under_way() -> None:
    queue = queue_of(2, idempotent=False)
    first = queue.take()
    assert first.base_sequence is None
    assert not ready(queue)
    queue.finished(first)
    assert ready(queue)


def test_with_idempotence_five_batches_are_under_way() -> None:
    queue = queue_of(7)
    taken = 0
    while ready(queue):
        assert queue.take().base_sequence == taken
        taken += 1
    assert taken == 5


def test_a_batch_that_failed_goes_alone_and_before_those_that_follow_it() -> None:
    queue = queue_of(4)
    first, second, third = queue.take(), queue.take(), queue.take()
    queue.put_back(second, 0)
    queue.put_back(first, 0)
    queue.put_back(third, 0)
    for expected in (first, second):
        assert ready(queue)
        assert queue.take() is expected
        assert not ready(queue)
        queue.finished(expected)
    assert [queue.take().base_sequence for _ in range(2)] == [2, 3]


def test_an_older_batch_that_is_undecided_makes_a_gap_a_matter_of_order() -> None:
    queue = queue_of(2)
    first, second = queue.take(), queue.take()
    assert not queue.is_oldest(second)
    queue.put_back(first, 0)
    assert not queue.is_oldest(second)
    queue.finished(queue.take())
    assert queue.is_oldest(second)


def test_a_new_epoch_waits_for_all_under_way_and_numbers_from_zero() -> None:
    queue = queue_of(3)
    queue.begin_epoch(ProducerIdentity(9, 0))
    first, second = queue.take(), queue.take()
    queue.put_back(first, 0)
    queue.needs_new_epoch = True
    assert not queue.can_renumber()
    assert not ready(queue)
    queue.put_back(second, 0)
    assert queue.can_renumber()
    queue.begin_epoch(ProducerIdentity(9, 1))
    assert queue.take() is first
    assert (first.base_sequence, second.base_sequence) == (0, None)


def test_the_last_epoch_is_followed_by_a_new_producer_id() -> None:
    assert ProducerIdentity(9, 3).bumped() == ProducerIdentity(9, 4)
    assert not ProducerIdentity(9, LAST_EPOCH).bumped().is_known


def test_a_batch_too_large_is_sent_in_halves_under_the_same_sequences() -> None:
    queue = PartitionQueue(T0, batch_size=FULL, idempotent=True)
    deliveries = [queue.append(record(number), 100, 0)[0] for number in range(5)]
    batch = queue.take()
    queue.replace_by_halves(batch)
    first = queue.take()
    assert (first.base_sequence, len(first.records)) == (0, 2)
    queue.finished(first)
    first.succeed(40)
    assert not deliveries[0].done()
    second = queue.take()
    assert (second.base_sequence, len(second.records)) == (2, 3)
    queue.finished(second)
    second.succeed(42)
    assert [delivery.result().offset for delivery in deliveries] == [40, 41, 42, 43, 44]


def test_what_waits_too_long_is_taken_out() -> None:
    queue = PartitionQueue(T0, batch_size=FULL, idempotent=True)
    queue.append(record(0), FULL, 10)
    queue.append(record(1), FULL, 20)
    assert [batch.created_ms for batch in queue.expire(15)] == [10]
    assert not queue.is_empty


class ModelBroker:
    """Appends in sequence, answers repeats, refuses gaps: what a partition leader does."""

    def __init__(self) -> None:
        self.log: list[bytes | None] = []
        self._next: dict[ProducerIdentity, int] = {}

    def append(self, identity: ProducerIdentity, batch: ProducerBatch) -> bool:
        """True when appended or known, False for a gap."""
        expected = self._next.get(identity, 0)
        assert batch.base_sequence is not None
        if batch.base_sequence < expected:
            return True
        if batch.base_sequence > expected:
            return False
        self._next[identity] = expected + len(batch.records)
        self.log += [item.value for item in batch.records]
        return True


@settings(deadline=None)
@given(st.data())
def test_every_record_arrives_once_and_in_order_over_any_failures(data: st.DataObject) -> None:
    """Requests and answers are lost at random; nothing is given up, so nothing may be missing."""
    total = data.draw(st.integers(1, 12))
    queue = queue_of(total)
    queue.begin_epoch(ProducerIdentity(1, 0))
    broker = ModelBroker()
    on_the_way: list[ProducerBatch] = []
    failures_left = 25
    while not queue.is_empty:
        may_send = ready(queue)
        if may_send and (not on_the_way or data.draw(st.booleans())):
            on_the_way.append(queue.take())
            continue
        # One connection: requests arrive in the order in which they were sent.
        batch = on_the_way.pop(0)
        fate = data.draw(st.sampled_from(["ok", "lost request", "lost answer"]))
        if failures_left == 0:
            fate = "ok"
        if fate == "lost request":
            failures_left -= 1
            queue.put_back(batch, 0)
            continue
        appended = broker.append(queue.identity, batch)
        if not appended:
            # A gap: an older batch was lost, so this one must not count as the oldest.
            assert not queue.is_oldest(batch)
            queue.put_back(batch, 0)
        elif fate == "lost answer":
            failures_left -= 1
            queue.put_back(batch, 0)
        else:
            queue.finished(batch)
    assert broker.log == [b"%d" % number for number in range(total)]
