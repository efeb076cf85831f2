"""Order and numbering of a partition's batches, whatever happens to them on the way."""

from hypothesis import given, settings
from hypothesis import strategies as st

from floodmark.client.batch import ProducerBatch
from floodmark.client.lane import LAST_EPOCH, Lane, ProducerIdentity
from floodmark.client.view import TopicPartition
from floodmark.records.record import Record

T0 = TopicPartition("t", 0)
FULL = 10_000


def lane_of(batches: int, *, idempotent: bool = True) -> Lane:
    """A lane with this many batches of one record each."""
    lane = Lane(T0, batch_size=FULL, idempotent=idempotent)
    for number in range(batches):
        lane.append(record(number), FULL, 0)
    return lane


def record(number: int) -> Record:
    return Record(0, 0, None, b"%d" % number, [])


def ready(lane: Lane) -> bool:
    at_ms = lane.ready_at_ms(0, hurry=True)
    return at_ms is not None and at_ms <= 1_000


def test_records_share_a_batch_until_it_is_full() -> None:
    lane = Lane(T0, batch_size=300, idempotent=True)
    _, first_opened = lane.append(record(0), 100, 0)
    _, second_opened = lane.append(record(1), 100, 0)
    _, third_opened = lane.append(record(2), 100, 0)
    assert (first_opened, second_opened, third_opened) == (True, False, True)


def test_a_batch_lingers_unless_it_is_full_or_somebody_hurries() -> None:
    lane = Lane(T0, batch_size=300, idempotent=True)
    lane.append(record(0), 100, 50)
    assert lane.ready_at_ms(10, hurry=False) == 60
    assert lane.ready_at_ms(10, hurry=True) == 50
    lane.append(record(1), 200, 50)
    assert lane.ready_at_ms(10, hurry=False) == 50


def test_without_idempotence_only_one_batch_is_under_way() -> None:
    lane = lane_of(2, idempotent=False)
    first = lane.take()
    assert first.base_sequence is None
    assert not ready(lane)
    lane.finished(first)
    assert ready(lane)


def test_with_idempotence_five_batches_are_under_way() -> None:
    lane = lane_of(7)
    taken = 0
    while ready(lane):
        assert lane.take().base_sequence == taken
        taken += 1
    assert taken == 5


def test_a_batch_that_failed_goes_alone_and_before_those_that_follow_it() -> None:
    lane = lane_of(4)
    first, second, third = lane.take(), lane.take(), lane.take()
    lane.put_back(second, 0)
    lane.put_back(first, 0)
    lane.put_back(third, 0)
    for expected in (first, second):
        assert ready(lane)
        assert lane.take() is expected
        assert not ready(lane)
        lane.finished(expected)
    assert [lane.take().base_sequence for _ in range(2)] == [2, 3]


def test_an_older_batch_that_is_undecided_makes_a_gap_a_matter_of_order() -> None:
    lane = lane_of(2)
    first, second = lane.take(), lane.take()
    assert not lane.is_oldest(second)
    lane.put_back(first, 0)
    assert not lane.is_oldest(second)
    lane.finished(lane.take())
    assert lane.is_oldest(second)


def test_a_new_epoch_waits_for_all_under_way_and_numbers_from_zero() -> None:
    lane = lane_of(3)
    lane.begin_epoch(ProducerIdentity(9, 0))
    first, second = lane.take(), lane.take()
    lane.put_back(first, 0)
    lane.needs_new_epoch = True
    assert not lane.can_number_anew()
    assert not ready(lane)
    lane.put_back(second, 0)
    assert lane.can_number_anew()
    lane.begin_epoch(ProducerIdentity(9, 1))
    assert lane.take() is first
    assert (first.base_sequence, second.base_sequence) == (0, None)


def test_the_last_epoch_is_followed_by_a_new_producer_id() -> None:
    assert ProducerIdentity(9, 3).bumped() == ProducerIdentity(9, 4)
    assert not ProducerIdentity(9, LAST_EPOCH).bumped().is_known


def test_a_batch_too_large_is_sent_in_halves_under_the_same_sequences() -> None:
    lane = Lane(T0, batch_size=FULL, idempotent=True)
    deliveries = [lane.append(record(number), 100, 0)[0] for number in range(5)]
    batch = lane.take()
    lane.replace_by_halves(batch)
    first = lane.take()
    assert (first.base_sequence, len(first.records)) == (0, 2)
    lane.finished(first)
    first.succeed(40)
    assert not deliveries[0].done()
    second = lane.take()
    assert (second.base_sequence, len(second.records)) == (2, 3)
    lane.finished(second)
    second.succeed(42)
    assert [delivery.result().offset for delivery in deliveries] == [40, 41, 42, 43, 44]


def test_what_waits_too_long_is_taken_out() -> None:
    lane = Lane(T0, batch_size=FULL, idempotent=True)
    lane.append(record(0), FULL, 10)
    lane.append(record(1), FULL, 20)
    assert [batch.created_ms for batch in lane.expire(15)] == [10]
    assert not lane.is_empty


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
    lane = lane_of(total)
    lane.begin_epoch(ProducerIdentity(1, 0))
    broker = ModelBroker()
    on_the_way: list[ProducerBatch] = []
    failures_left = 25
    while not lane.is_empty:
        may_send = ready(lane)
        if may_send and (not on_the_way or data.draw(st.booleans())):
            on_the_way.append(lane.take())
            continue
        # One connection: requests arrive in the order in which they were sent.
        batch = on_the_way.pop(0)
        fate = data.draw(st.sampled_from(["ok", "lost request", "lost answer"]))
        if failures_left == 0:
            fate = "ok"
        if fate == "lost request":
            failures_left -= 1
            lane.put_back(batch, 0)
            continue
        appended = broker.append(lane.identity, batch)
        if not appended:
            # A gap: an older batch was lost, so this one must not count as the oldest.
            assert not lane.is_oldest(batch)
            lane.put_back(batch, 0)
        elif fate == "lost answer":
            failures_left -= 1
            lane.put_back(batch, 0)
        else:
            lane.finished(batch)
    assert broker.log == [b"%d" % number for number in range(total)]
