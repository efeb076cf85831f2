"""Waits for what a broker does soon but not at once, such as spreading metadata."""

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not so after {timeout_s} s"
        time.sleep(0.02)
