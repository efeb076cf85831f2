"""Operations end once: by their event or by their deadline."""

from floodmark.replication.purgatory import MINIMUM_SWEEP, Purgatory


class Wanted:
    def __init__(self, *, needs):
        self.needs = set(needs)
        self.ended = []

    def try_complete(self, key):
        self.needs.discard(key)
        if self.needs:
            return False
        self.ended.append("completed")
        return True

    def expire(self):
        self.ended.append("expired")


def test_an_operation_ends_when_all_it_waits_for_has_come():
    purgatory = Purgatory()
    operation = Wanted(needs=["a", "b"])
    purgatory.watch(operation, ["a", "b"], deadline_ms=100)
    purgatory.check("a")
    assert operation.ended == []
    purgatory.check("b")
    assert operation.ended == ["completed"]
    assert len(purgatory) == 0


def test_an_operation_that_ended_does_not_expire_again():
    purgatory = Purgatory()
    operation = Wanted(needs=["a"])
    purgatory.watch(operation, ["a"], deadline_ms=100)
    purgatory.check("a")
    purgatory.expire(now_ms=1000)
    assert operation.ended == ["completed"]


def test_operations_expire_at_their_deadline_and_not_before():
    purgatory = Purgatory()
    early, late = Wanted(needs=["a"]), Wanted(needs=["a"])
    purgatory.watch(late, ["a"], deadline_ms=200)
    purgatory.watch(early, ["a"], deadline_ms=100)
    assert purgatory.next_deadline_ms() == 100
    purgatory.expire(now_ms=100)
    assert (early.ended, late.ended) == (["expired"], [])
    purgatory.check("a")
    assert early.ended == ["expired"]


def test_ended_operations_do_not_pile_up_until_their_deadline():
    purgatory = Purgatory()
    for _ in range(10 * MINIMUM_SWEEP):
        purgatory.watch(Wanted(needs=["a"]), ["a"], deadline_ms=1e9)
        purgatory.check("a")
    assert len(purgatory._deadlines) <= MINIMUM_SWEEP


def test_the_next_deadline_is_one_that_somebody_still_waits_for():
    purgatory = Purgatory()
    purgatory.watch(Wanted(needs=["a"]), ["a"], deadline_ms=100)
    purgatory.watch(Wanted(needs=["b"]), ["b"], deadline_ms=200)
    purgatory.check("a")
    assert purgatory.next_deadline_ms() == 200
    purgatory.check("b")
    assert purgatory.next_deadline_ms() is None
