"""A state machine of hypothesis whose rules act on something that lives on a loop."""

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

from kit.flushed import COMMITS_LATER

TURNS_TO_COMMIT = 10


async def settle() -> None:
    """Lets a log that commits later do so, and those be answered who wait for it."""
    if COMMITS_LATER:
        for _ in range(TURNS_TO_COMMIT):
            await asyncio.sleep(0)


class LoopMachine(RuleBasedStateMachine):
    """`teardown` closes the loop; who has more to close does that first."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls it on the loop, and waits for what it returns if that is a coroutine."""

        async def step() -> Any:
            result = function(*args, **kwargs)
            result = await result if asyncio.iscoroutine(result) else result
            await settle()
            return result

        return self.loop.run_until_complete(step())

    def teardown(self) -> None:
        self.loop.close()
