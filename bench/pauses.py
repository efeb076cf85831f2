"""How long a second client waits for an answer while a case works the broker."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe

import wire

_PROBE_EVERY_SECONDS = 0.003


@contextmanager
def second_client(port: int) -> Iterator[Callable[[], float]]:
    """Another process asks ApiVersions every 3 ms; call what this gives for its longest wait."""
    receiving, sending = multiprocessing.Pipe(duplex=False)
    probe = multiprocessing.Process(target=_longest_answer, args=(port, sending))
    probe.start()
    longest = receiving.recv()  # it is connected and asks

    def longest_seconds() -> float:
        nonlocal longest
        while receiving.poll():
            longest = receiving.recv()
        return float(longest)

    try:
        yield longest_seconds
    finally:
        probe.terminate()
        probe.join()
        receiving.close()
        sending.close()


def _longest_answer(port: int, report: Pipe) -> None:
    """Runs in a process of its own until it is ended; reports each new longest answer time."""
    connection = wire.Connection(port)
    question = wire.api_versions()
    connection.call(question)
    report.send(0.0)
    longest = 0.0
    while True:
        start = time.perf_counter()
        connection.call(question)
        took = time.perf_counter() - start
        if took > longest:
            longest = took
            report.send(longest)
        time.sleep(_PROBE_EVERY_SECONDS)
