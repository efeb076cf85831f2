"""A database that goes away is waited for, but not one that was never there."""

import pytest

from floodmark.pipeline.authoring.jdbc_connection import DatabaseAway
from floodmark.pipeline.authoring.jdbc_sink import Patience
from floodmark.testing import VirtualClock


class Database:
    """Away for some attempts; every pause takes a second."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.away = 0
        self.attempts = 0

    def write(self) -> None:
        self.attempts += 1
        if self.away:
            self.away -= 1
            raise DatabaseAway("away")

    def pause(self, seconds: float) -> None:
        self._clock.advance(int(seconds * 1000))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def test_a_database_that_was_never_reached_is_told_at_once(clock: VirtualClock) -> None:
    database = Database(clock)
    database.away = 1
    with pytest.raises(DatabaseAway):
        Patience(clock, database.pause).run(database.write)
    assert database.attempts == 1


def test_a_database_that_goes_away_is_waited_for_up_to_two_minutes(clock: VirtualClock) -> None:
    database = Database(clock)
    patience = Patience(clock, database.pause)
    patience.run(database.write)
    database.away = 100
    patience.run(database.write)
    assert database.attempts == 102
    database.away = 1_000
    with pytest.raises(DatabaseAway):
        patience.run(database.write)
    assert database.attempts < 102 + 130


def test_the_time_of_a_long_batch_before_the_database_went_away_does_not_count(
    clock: VirtualClock,
) -> None:
    database = Database(clock)
    patience = Patience(clock, database.pause)
    patience.run(database.write)
    database.away = 1

    def stage_for_long() -> None:
        clock.advance(180_000)
        database.write()

    patience.run(stage_for_long)
    assert database.attempts == 3
