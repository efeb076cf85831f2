"""What repeats is told ever more rarely, and remembered within bounds."""

from floodmark.occurrences import MAX_KINDS, Occurrences, repeated


def test_a_repeated_kind_is_told_at_powers_of_two():
    seen = Occurrences()
    told = [seen.worth_telling("same") for _ in range(20)]
    assert [times for times in told if times] == [1, 2, 4, 8, 16]


def test_kinds_are_counted_apart():
    seen = Occurrences()
    assert seen.worth_telling("a") == 1
    assert seen.worth_telling("b") == 1


def test_what_is_remembered_is_bounded():
    seen = Occurrences()
    for number in range(10 * MAX_KINDS):
        seen.worth_telling(f"kind {number}")
    assert len(seen._times) <= MAX_KINDS


def test_a_message_counts_from_its_second_time_on() -> None:
    seen = Occurrences()
    told = [seen.worth_telling("full") for _ in range(4)]
    assert [f"full{repeated(times)}" for times in told if times] == [
        "full", "full (2 times by now)", "full (4 times by now)"
    ]  # fmt: skip
