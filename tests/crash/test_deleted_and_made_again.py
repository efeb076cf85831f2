"""A broker is killed between the deletion of a topic in the store and the renaming of its folders.

What is left belongs to nobody: the next start sets it aside, and the name can be used again.
"""

import asyncio
import contextlib
import sys
from pathlib import Path

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.errors import KafkaError
from floodmark.client.producer.producer import Producer
from kit.broker import Broker, start_floodmark, up_command
from kit.probe import broker_answers
from kit.process import ServerProcess, free_port

TOPIC = "again"
# The broker as users run it, but for one crash point: it kills itself before the folder of a
# deleted topic gets its new name.
DIES_AT_RENAME = """
import os, signal, sys
from floodmark.cli.main import main
from floodmark.storage.files import RealFiles

def rename(self, source, target, real=RealFiles.rename):
    if target.name.endswith("-delete"):
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, source, target)

RealFiles.rename = rename
sys.exit(main())
"""


def start_doomed(folder: Path) -> Broker:
    port = free_port()
    command = up_command(port, folder / "data")
    command[:1] = [sys.executable, "-c", DIES_AT_RENAME]
    process = ServerProcess(command, folder / "doomed.out")
    process.wait_until(lambda: broker_answers(port))
    return Broker(port, folder / "data", process)


async def make(bootstrap: str, value: bytes) -> int:
    """The offset of a first record in a new topic."""
    async with Admin(bootstrap) as admin:
        await admin.create_topic(NewTopic(TOPIC, 1, 1))
    async with Producer(bootstrap) as producer:
        return (await producer.send_and_wait(TOPIC, value)).offset


async def delete(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.delete_topics([TOPIC])


def test_a_topic_can_be_made_again_after_a_crash_in_its_deletion(tmp_path: Path) -> None:
    doomed = start_doomed(tmp_path)
    try:
        assert asyncio.run(make(doomed.bootstrap, b"old")) == 0
        with contextlib.suppress(KafkaError, TimeoutError, OSError):
            asyncio.run(asyncio.wait_for(delete(doomed.bootstrap), 20))
        assert not doomed.process.is_running()
    finally:
        doomed.process.kill()
    assert (doomed.data_dir / f"{TOPIC}-0").is_dir()

    for value in (b"new", b"newer"):
        broker = start_floodmark(tmp_path)
        try:
            assert asyncio.run(make(broker.bootstrap, value)) == 0
            asyncio.run(delete(broker.bootstrap))
        finally:
            broker.process.stop()
    names = [path.name for path in broker.data_dir.glob(f"{TOPIC}*")]
    assert len(names) == 1, names
    assert names[0].endswith("-stray")
    assert "belonged to a deleted topic" in broker.process.output()
