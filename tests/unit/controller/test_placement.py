"""Where replicas go."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from floodmark.controller.placement import alternate_racks, place_replicas


def test_kafkas_example_of_ten_partitions_over_five_brokers():
    rows = place_replicas(dict.fromkeys(range(5)), 10, 3, start=0, shift=0)
    assert rows == (
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    )


def test_brokers_of_different_racks_take_turns():
    racks = {0: "r1", 1: "r3", 2: "r3", 3: "r2", 4: "r2", 5: "r1"}
    assert alternate_racks(racks) == [0, 3, 1, 5, 4, 2]


def test_one_broker_takes_everything():
    assert place_replicas({7: None}, 2, 1, start=0, shift=0) == ((7,), (7,))


def test_new_partitions_go_on_where_the_old_ones_ended():
    brokers = dict.fromkeys(range(3))
    whole = place_replicas(brokers, 6, 2, start=1, shift=0)
    added = place_replicas(brokers, 2, 2, start=1, shift=1, first_partition=4)
    assert [row[0] for row in added] == [row[0] for row in whole[4:]]


@st.composite
def clusters(draw):
    rack_names = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=9))
    has_racks = draw(st.booleans())
    brokers = {number * 3: (rack if has_racks else None) for number, rack in enumerate(rack_names)}
    factor = draw(st.integers(1, len(brokers)))
    start = draw(st.integers(0, len(brokers) - 1))
    shift = draw(st.integers(0, len(brokers) - 1))
    return brokers, factor, start, shift


@given(clusters(), st.integers(1, 40))
def test_replicas_are_distinct_leaders_even_and_racks_used_first(cluster, partitions):
    brokers, factor, start, shift = cluster
    rows = place_replicas(brokers, partitions, factor, start=start, shift=shift)
    assert len(rows) == partitions
    for row in rows:
        assert len(row) == len(set(row)) == factor
        assert set(row) <= set(brokers)
        racks = {brokers[number] for number in row}
        if None not in racks:
            assert len(racks) == min(factor, len(set(brokers.values())))
    leaders = Counter(row[0] for row in rows)
    assert max(leaders.values()) - min(leaders[number] for number in brokers) <= 1
