"""Counts instructions per request, a measure that other load on the machine does not change.

`python bench/instructions.py [--checkout ../before --checkout .] [--case P1s-32]` runs the broker
of each checkout (its `.venv`) under valgrind's callgrind and prints instructions per request, side
by side. Two runs of the same code differ by less than 1 %. The kernel's share is missing: only
bench/run.py, which measures CPU time, has it.
"""

import argparse
import re
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import load
import wire
from batches import NO_PRODUCER, RECORDS_PER_BATCH, make_batch
from servers import Server, running_command

WARM_UP = 64
"""Unmeasured requests per connection: Python specializes its bytecode, the broker learns."""


def _pipelined(server: Server, measure: Callable[[], None], idempotent: bool = False) -> int:
    with server.topic(4) as topic_id:
        connections = server.connect(4)
        frames = []
        for partition, connection in enumerate(connections):
            producer = wire.new_producer(connection) if idempotent else NO_PRODUCER
            frames.append(wire.produce(topic_id, partition, make_batch(producer=producer)))
            load.settle(connection, frames[-1])
        patch = load.sequence_patcher(RECORDS_PER_BATCH, 1) if idempotent else None
        load.pipelined(connections, frames, WARM_UP, patch)
        patch = load.sequence_patcher(RECORDS_PER_BATCH, 1 + WARM_UP) if idempotent else None
        measure()
        load.pipelined(connections, frames, 500, patch)
        measure()
    return 2000


def _synchronous(server: Server, measure: Callable[[], None], connection_count: int) -> int:
    with server.topic(connection_count) as topic_id:
        connections = server.connect(connection_count)
        batch = make_batch(1)
        frames = [wire.produce(topic_id, number, batch) for number in range(connection_count)]
        for connection, frame in zip(connections, frames, strict=True):
            load.settle(connection, frame)
        load.synchronous(connections, frames, WARM_UP * connection_count)
        measure()
        load.synchronous(connections, frames, 3200)
        measure()
    return 3200


def _fetch(server: Server, measure: Callable[[], None]) -> int:
    batches, passes = 400, 20
    with server.topic(1) as topic_id:
        producer, consumer = server.connect(2)
        frame = wire.produce(topic_id, 0, make_batch())
        load.settle(producer, frame)
        load.pipelined([producer], [frame], batches - 1)
        end_offset = batches * RECORDS_PER_BATCH
        fetch = wire.fetch(topic_id)
        for _ in range(passes):
            load.fetch_pass(consumer, fetch, end_offset)
        measure()
        for _ in range(passes):
            load.fetch_pass(consumer, fetch, end_offset)
        measure()
    return passes * batches * RECORDS_PER_BATCH // 8000


def _end_to_end(server: Server, measure: Callable[[], None], partitions: int) -> int:
    """A fetch that waits, then the record that it waits for, in lockstep."""
    records = 200
    with server.topic(partitions) as topic_id:
        producer, consumer = server.connect(2)
        produce = wire.produce(topic_id, 0, make_batch(1))
        load.settle(producer, produce)
        fetch = wire.fetch(topic_id, partitions)
        for number in range(WARM_UP + records):
            if number == WARM_UP:
                measure()
            struct.pack_into(">q", fetch.data, fetch.patch_at, 1 + number)
            consumer.send(fetch.data)
            # Without an answer to wait for: until the broker has parked the fetch.
            time.sleep(0.002 + 0.001 * partitions)
            load.check_produced(producer.call(produce.data))
            assert len(wire.fetched(consumer.receive_large())), "the fetch did not wait"
        measure()
    return records


CASES: dict[str, Callable[[Server, Callable[[], None]], int]] = {
    "P1": _pipelined,
    "P1b": lambda server, measure: _pipelined(server, measure, idempotent=True),
    "P1s-1": lambda server, measure: _synchronous(server, measure, 1),
    "P1s-32": lambda server, measure: _synchronous(server, measure, 32),
    "P2": _fetch,
    "P3": lambda server, measure: _end_to_end(server, measure, 1),
    "P3-100": lambda server, measure: _end_to_end(server, measure, 100),
}
"""The cases of bench/run.py, short, each with how many requests it measures."""


def count(checkout: Path, names: list[str], keep: Path | None) -> dict[str, float]:
    """Instructions per request of each case."""
    with tempfile.TemporaryDirectory(prefix="floodmark-instructions-") as name:
        folder = Path(name)
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
        valgrind += [f"--callgrind-out-file={folder}/counts"]
        python = checkout.resolve() / ".venv/bin/python"
        command = [*valgrind, str(python), str(python.with_name("floodmark"))]
        counts: dict[str, float] = {}
        with running_command(command, folder) as server:
            for case in names:
                control = _Control(server.process.pid, folder)
                requests = CASES[case](server, control.toggle)
                counts[case] = control.instructions() / requests
                if keep is not None:
                    control.keep(keep / f"{checkout.resolve().name}.{case}.callgrind")
        return counts


class _Control:
    """Switches the counting of a broker on and off."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._pid = pid
        self._folder = folder
        self._is_on = False

    def toggle(self) -> None:
        self._is_on = not self._is_on
        if self._is_on:
            self._call("--zero")
        self._call(f"--instr={'on' if self._is_on else 'off'}")
        if not self._is_on:
            self._call("--dump")

    def instructions(self) -> int:
        totals = re.search(r"^totals: (\d+)$", self._dump.read_text(), re.MULTILINE)
        assert totals is not None, "callgrind wrote no totals"
        return int(totals[1])

    def keep(self, path: Path) -> None:
        path.write_bytes(self._dump.read_bytes())

    @property
    def _dump(self) -> Path:
        return max(self._folder.glob("counts.*"), key=lambda path: int(path.suffix[1:]))

    def _call(self, option: str) -> None:
        command = ["callgrind_control", option, str(self._pid)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkout", action="append", type=Path, help="a checkout with a .venv")
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this case")
    parser.add_argument("--keep", type=Path, help="keep callgrind's files in this folder")
    arguments = parser.parse_args()
    names = arguments.case or list(CASES)
    checkouts = arguments.checkout or [Path(__file__).parent.parent]
    counted = [count(checkout, names, arguments.keep) for checkout in checkouts]
    print(f"{'instructions per request':26}", *(f"{path.resolve().name:>14}" for path in checkouts))
    for name in names:
        shares = (f"{one[name]:8.0f} {one[name] / counted[0][name] * 100:4.1f}%" for one in counted)
        print(f"{name:26}", *(f"{share:>14}" for share in shares))


if __name__ == "__main__":
    main()
