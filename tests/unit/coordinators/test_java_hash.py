"""Which partition a group or a transactional id belongs to."""

from floodmark.coordinators import java_hash
from floodmark.coordinators.java_hash import partition_for


def test_keys_fall_where_java_puts_them() -> None:
    assert [partition_for(key, 50) for key in ("", "a", "group-1", "漢字", "𝄞")] == [
        0,
        47,
        49,
        33,
        44,
    ]


def test_the_hash_without_a_positive_twin_falls_on_the_first_partition() -> None:
    assert java_hash.java_string_hash("polygenelubricants") == -(2**31)
    assert partition_for("polygenelubricants", 50) == 0


def test_long_keys_are_not_kept() -> None:
    """Anybody can send thousands of them, of 32 KiB each."""
    before = java_hash._cached_hash.cache_info().currsize
    keys = [f"{number}".rjust(30_000, "x") for number in range(3)]
    assert [partition_for(key, 50) for key in keys] == [partition_for(key, 50) for key in keys]
    assert java_hash._cached_hash.cache_info().currsize == before
