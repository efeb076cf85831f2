"""Range and cooperative-sticky assignment."""

from hypothesis import given
from hypothesis import strategies as st

from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.assignors import CooperativeStickyAssignor, Member, RangeAssignor
from floodmark.client.consumer.group_protocol import (
    encode_assignment,
    encode_subscription,
    read_assignment,
    read_member,
)


def member(name: str, *topics: str, **changes: object) -> Member:
    return Member(name, frozenset(topics), **changes)  # type: ignore[arg-type]


def indexes(partitions: list[TopicPartition]) -> list[int]:
    return [p.partition for p in partitions]


def test_range_gives_neighbours_and_the_first_members_one_more() -> None:
    given_out = RangeAssignor().assign([member("b", "t"), member("a", "t")], {"t": 5})
    assert {name: indexes(p) for name, p in given_out.items()} == {"a": [0, 1, 2], "b": [3, 4]}


def test_range_shares_each_topic_among_its_own_readers() -> None:
    given_out = RangeAssignor().assign([member("a", "t", "u"), member("b", "u")], {"t": 2, "u": 2})
    assert given_out == {
        "a": [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)],
        "b": [TopicPartition("u", 1)],
    }


def test_range_orders_static_members_by_their_instance() -> None:
    members = [
        member("z", "t", group_instance_id="i-1"),
        member("a", "t", group_instance_id="i-2"),
        member("b", "t"),
    ]
    given_out = RangeAssignor().assign(members, {"t": 3})
    assert {name: indexes(p) for name, p in given_out.items()} == {"z": [0], "a": [1], "b": [2]}


def test_more_readers_than_partitions_leave_some_without() -> None:
    members = [member("a", "t"), member("b", "t")]
    for assignor in (RangeAssignor(), CooperativeStickyAssignor()):
        given_out = assignor.assign(members, {"t": 1, "gone": 0})
        assert sorted(map(len, given_out.values())) == [0, 1]


def test_a_partition_that_moves_is_nobodys_for_one_round() -> None:
    owned = tuple(TopicPartition("t", index) for index in range(4))
    old = member("a", "t", owned=owned, generation_id=3)
    first = CooperativeStickyAssignor().assign([old, member("b", "t")], {"t": 4})
    assert len(first["a"]) == 2
    assert first["b"] == []
    kept = member("a", "t", owned=tuple(first["a"]), generation_id=4)
    second = CooperativeStickyAssignor().assign([kept, member("b", "t", generation_id=4)], {"t": 4})
    assert second["a"] == first["a"]
    assert sorted(second["a"] + second["b"]) == list(owned)


def test_of_two_claims_the_newer_generation_counts_and_equals_cancel_out() -> None:
    partition = TopicPartition("t", 0)
    old = member("a", "t", owned=(partition,), generation_id=1)
    new = member("b", "t", owned=(partition,), generation_id=2)
    assert CooperativeStickyAssignor().assign([old, new], {"t": 1})["b"] == [partition]
    equal = member("a", "t", owned=(partition,), generation_id=2)
    given_out = CooperativeStickyAssignor().assign([equal, new], {"t": 1})
    assert sorted(map(len, given_out.values())) == [0, 1]


TOPICS = ("t", "u", "v")


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[Member], dict[str, int]]:
    counts = {topic: draw(st.integers(0, 8)) for topic in TOPICS}
    every = [TopicPartition(topic, index) for topic in TOPICS for index in range(9)]
    members = [
        member(
            f"m{number}",
            *draw(st.sets(st.sampled_from(TOPICS))),
            owned=tuple(draw(st.sets(st.sampled_from(every), max_size=6))),
            generation_id=draw(st.integers(-1, 2)),
        )
        for number in range(draw(st.integers(1, 5)))
    ]
    return members, counts


def settle(members: list[Member], counts: dict[str, int]) -> dict[str, list[TopicPartition]]:
    """What the members have after as many rounds as a group would need."""
    assignor = CooperativeStickyAssignor()
    for generation_id in (5, 6, 7):
        given_out = assignor.assign(members, counts)
        members = [
            Member(m.member_id, m.topics, tuple(given_out[m.member_id]), generation_id)
            for m in members
        ]
    return given_out


@given(groups())
def test_every_partition_has_one_reader_and_loads_are_even(
    group: tuple[list[Member], dict[str, int]],
) -> None:
    members, counts = group
    given_out = settle(members, counts)
    by_id = {m.member_id: m for m in members}
    read = [p for partitions in given_out.values() for p in partitions]
    wanted = frozenset[str]().union(*(m.topics for m in members))
    assert sorted(read) == [
        TopicPartition(topic, index)
        for topic in TOPICS
        if topic in wanted
        for index in range(counts[topic])
    ]
    for giver, partitions in given_out.items():
        for partition in partitions:
            assert partition.topic in by_id[giver].topics
            for taker in given_out:
                if partition.topic in by_id[taker].topics:
                    assert len(partitions) <= len(given_out[taker]) + 1


@given(groups())
def test_nobody_is_given_what_another_has_not_yet_given_up(
    group: tuple[list[Member], dict[str, int]],
) -> None:
    members, counts = group
    settled = settle(members, counts)
    owning = [Member(m.member_id, m.topics, tuple(settled[m.member_id]), 9) for m in members]
    joined = [*owning, member("new", *TOPICS)]
    given_out = CooperativeStickyAssignor().assign(joined, counts)
    taken = {p for m in owning for p in m.owned}
    assert not taken & set(given_out["new"])


def test_subscription_and_assignment_survive_their_bytes() -> None:
    owned = [TopicPartition("t", 1), TopicPartition("t", 2), TopicPartition("u", 0)]
    data = encode_subscription(["t", "u"], owned, 7)
    assert read_member("m", data, "i") == Member("m", frozenset("tu"), tuple(owned), 7, "i")
    assert read_assignment(encode_assignment(owned)) == owned
    assert read_assignment(b"") == []
