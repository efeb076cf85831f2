"""A pipeline that runs in a thread, for tests that take its brokers away rather than kill it."""

from concurrent.futures import ThreadPoolExecutor
from typing import Self

from floodmark.pipeline.authoring.runner import Runner


class PipelineThread:
    """`Runner.run` until the block ends."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._threads = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        self._run = self._threads.submit(self._runner.run)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._runner.stop()
        self._threads.shutdown()

    def is_running(self) -> bool:
        return not self._run.done()

    def output(self) -> str:
        return "still running" if self.is_running() else f"ended: {self._run.exception()!r}"

    def stop(self) -> None:
        """In order, as Ctrl-C would. A pipeline that has failed is an error."""
        self._runner.stop()
        self._run.result(180)
