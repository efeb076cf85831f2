"""Parts start in order and stop in the opposite order, whatever fails."""

import asyncio
from collections.abc import Iterator

import pytest

from floodmark.broker.lifecycle import Lifecycle, Part


class Diary:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def part(self, name: str, *, fails: str = "") -> Part:
        def start() -> None:
            self._note(f"start {name}", fails)

        async def stop() -> None:
            self._note(f"stop {name}", fails)

        return Part(start, stop)

    def _note(self, line: str, fails: str) -> None:
        self.lines.append(line)
        if fails and line.startswith(fails):
            raise OSError(line)


def test_parts_stop_in_the_opposite_order() -> None:
    diary = Diary()

    async def run() -> None:
        lifecycle = Lifecycle()
        await lifecycle.start([diary.part("logs"), diary.part("network")])
        await lifecycle.stop()

    asyncio.run(run())
    assert diary.lines == ["start logs", "start network", "stop network", "stop logs"]


def test_a_part_that_fails_to_start_has_those_before_it_stopped() -> None:
    diary = Diary()
    parts = [diary.part("logs"), diary.part("network", fails="start"), diary.part("cleaner")]
    with pytest.raises(OSError, match="start network"):
        asyncio.run(Lifecycle().start(parts))
    assert diary.lines == ["start logs", "start network", "stop logs"]


def test_a_part_that_fails_to_stop_keeps_no_other_from_stopping() -> None:
    diary = Diary()

    async def run() -> None:
        lifecycle = Lifecycle()
        await lifecycle.start([diary.part("logs"), diary.part("network", fails="stop")])
        await lifecycle.stop()

    with pytest.raises(OSError, match="stop network"):
        asyncio.run(run())
    assert diary.lines[-2:] == ["stop network", "stop logs"]


@pytest.mark.parametrize(("fails", "expected"), [("", True), ("stop", False)])
def test_a_part_knows_whether_those_after_it_stopped_well(fails: str, expected: bool) -> None:
    diary, seen = Diary(), []

    async def run() -> None:
        lifecycle = Lifecycle()
        logs = Part(stop=lambda: seen.append(lifecycle.is_clean))
        await lifecycle.start([logs, diary.part("network", fails=fails)])
        try:
            await lifecycle.stop()
        except OSError:
            assert fails

    asyncio.run(run())
    assert seen == [expected]


def test_parts_are_made_when_their_turn_comes() -> None:
    diary = Diary()

    def parts() -> Iterator[Part]:
        yield diary.part("logs")
        diary.lines.append("made network")
        yield diary.part("network")

    asyncio.run(Lifecycle().start(parts()))
    assert diary.lines == ["start logs", "made network", "start network"]
