"""`floodmark service export` of the sample service, as a process."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.process import ServerProcess, free_port
from kit.zookeeper import ZooKeeper

FLOODMARK = str(Path(sys.executable).parent / "floodmark")
TESTS = Path(__file__).parent.parent


@contextmanager
def exported(
    zookeeper: ZooKeeper, folder: Path, interface: str, *options: str
) -> Iterator[ServerProcess]:
    command = [FLOODMARK, "service", "export", "kit.sample_service:Sample"]
    command += ["--interface", interface, "--port", str(free_port()), *options]
    command += ["--registry", f"zookeeper://{zookeeper.hosts}?session=2000"]
    log = folder / f"{free_port()}.log"
    with ServerProcess(command, log, {"PYTHONPATH": str(TESTS)}) as process:
        process.wait_until(lambda: "is served at" in process.output())
        yield process
