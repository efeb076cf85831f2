"""P4 and P5: the cases about starting and about pauses, which need more than a load loop."""

import tempfile
import time
from pathlib import Path

import load
import wire
from batches import make_batch
from pauses import second_client
from servers import Server, launch

_IDLE_SECONDS = 20.0
_RETRY_SECONDS = 0.001


def p4_start(server: Server, scale: float) -> dict[str, float]:
    """Starts a second, fresh broker of the same kind, so the one under load stays warm."""
    with tempfile.TemporaryDirectory(dir=server.folder) as folder:
        process, port = launch(server.name, Path(folder))
        with process:
            first_ack = _first_acknowledgement(port) - process.started_at
            time.sleep(min(2.0, _IDLE_SECONDS * scale))  # what the start left to do is not rest
            cpu, idle_for = process.cpu_seconds(), _IDLE_SECONDS * scale
            time.sleep(idle_for)
            cpu = process.cpu_seconds() - cpu
            return {
                "first_ack": first_ack,
                "idle_rss": process.rss_bytes() / 1e6,
                "idle_cpu": cpu / idle_for * 100,
            }


def _first_acknowledgement(port: int, patience_s: float = 60.0) -> float:
    """Connect, create a topic and send one record, again and again until it is acknowledged."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        try:
            connection = wire.Connection(port)
        except OSError:
            time.sleep(_RETRY_SECONDS)
            continue
        try:
            topic_id = wire.create_topic(connection, "first", 1)
            load.settle(connection, wire.produce(topic_id, 0, make_batch(1)))
            return time.monotonic()
        except (OSError, wire.Refused):
            time.sleep(_RETRY_SECONDS)
        finally:
            connection.close()
    raise TimeoutError(f"no acknowledgement within {patience_s} s")


def p5_many_partitions(server: Server, scale: float) -> dict[str, float]:
    """A thousand partitions at once, while another process keeps asking for ApiVersions."""
    partitions = max(int(1_000 * scale), 10)
    with second_client(server.port) as longest_seconds:
        start = time.perf_counter()
        with server.topic(partitions) as topic_id:
            created = time.perf_counter()
            (connection,) = server.connect()
            frames = [wire.produce(topic_id, p, make_batch(1)) for p in range(partitions)]
            _write_each_once(connection, frames)
            written = time.perf_counter()
        pause = longest_seconds()
    return {"create": created - start, "write": written - created, "pause": pause * 1e3}


def _write_each_once(connection: wire.Connection, frames: list[wire.Frame]) -> None:
    """All of them in flight at once; those that the leader did not know yet go out again."""
    waiting = frames
    while waiting:
        for frame in waiting:
            connection.send(frame.data)
        codes = [wire.produced(connection.receive())[0] for _ in waiting]
        if any(code and code not in wire.RETRIABLE for code in codes):
            raise wire.Refused(f"produce answered errors {sorted(set(codes))}")
        waiting = [frame for frame, code in zip(waiting, codes, strict=True) if code]
