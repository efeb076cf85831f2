"""Random requests, whole and broken, against a real `floodmark up` process.

Nothing that a client sends may end, block or bloat the broker: a well-behaved client beside the
fuzz is served throughout, memory stays flat, sockets are given back, and no request fails inside
the broker. What it has written down meanwhile it reads again at its next start.
`FLOODMARK_FUZZ_REQUESTS` says how many are fired, `FLOODMARK_SEED` repeats a run.
"""

import asyncio
import os
import resource
from collections.abc import Mapping
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.cluster.connection import Connection
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.list_groups import ListGroupsRequest
from floodmark.wire.messages.list_transactions import ListTransactionsRequest
from fuzz_kit.acquaintances import Acquaintances
from fuzz_kit.failures import distinct_failures
from fuzz_kit.gunner import Gunner, plain_door
from fuzz_kit.looking import open_sockets, served_by
from fuzz_kit.raw_client import RawClient
from fuzz_kit.shots import ShotMaker
from fuzz_kit.witness import Witness
from kit.broker import Broker, start_floodmark
from kit.seeds import seed
from kit.waiting import wait_for

REQUESTS = int(os.environ.get("FLOODMARK_FUZZ_REQUESTS", "5000"))
SEED = seed()

GUNNERS = 12
ROUNDS = 10
"""After each round the topics that the fuzz made are removed; after the second, memory is noted."""

WARM_UP_ROUNDS = 2
ALLOWED_GROWTH_BYTES = 12 * 1024 * 1024
"""What allocator and caches may take after the warm-up; a leak of 100 bytes a request is more."""

MOST_MEMORY_BYTES = 2 * 1024**3
SLOWEST_ALLOWED_S = 5.0
WITNESS_TOPIC = "witness"
FUZZ_TOPICS = ("fuzz-0", "fuzz-1", "fuzz-2")

SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.segment.delete.delay.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


@pytest.mark.timeout(1500)
def test_nobody_else_notices_hostile_requests(tmp_path: Path) -> None:
    print(f"FLOODMARK_SEED={SEED} FLOODMARK_FUZZ_REQUESTS={REQUESTS}")
    broker = start_floodmark(tmp_path, SETTINGS)
    # A broker that does bloat shall end, not take the machine with it.
    resource.prlimit(broker.process.pid, resource.RLIMIT_AS, (MOST_MEMORY_BYTES,) * 2)
    with broker.process:
        sockets_before = open_sockets(broker.process)
        asyncio.run(Run(broker).all_rounds())
        wait_for(lambda: open_sockets(broker.process) <= sockets_before)
        failures = distinct_failures(broker.process.output())
        assert not failures, "\n".join(failures)
    told_before = len(broker.process.output())
    again = start_floodmark(tmp_path, SETTINGS)
    with again.process:
        wait_for(lambda: have_loaded(again.bootstrap))
        told = again.process.output()[told_before:]
        assert " ERROR " not in told, told


class Run:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._random = Random(SEED)
        self._acquaintances = Acquaintances()

    async def all_rounds(self) -> None:
        async with Admin(self._broker.bootstrap) as admin:
            await admin.create_topics([NewTopic(WITNESS_TOPIC, 1, 1)])
            await self._tidy(admin)
            connection = await Connection.open("127.0.0.1", self._broker.port)
            witness = Witness(connection, WITNESS_TOPIC)
            watching = asyncio.create_task(witness.watch())
            try:
                await self._rounds(admin, connection, watching)
            finally:
                witness.stop()
                await watching
                await connection.close()
        print(f"witness: {witness.rounds} rounds, slowest {witness.slowest_s:.3f} s")
        assert witness.slowest_s < SLOWEST_ALLOWED_S
        assert not self._acquaintances.never_met, "requests did not get past the first check"

    async def _rounds(
        self, admin: Admin, connection: Connection, watching: asyncio.Task[None]
    ) -> None:
        after_warm_up = 0
        for number in range(ROUNDS):
            await self._round(served_by(connection), await topic_ids(admin))
            await self._tidy(admin)
            assert not watching.done(), "the witness was not served"
            if number < WARM_UP_ROUNDS:
                after_warm_up = self._broker.process.rss_bytes()
        growth_bytes = self._broker.process.rss_bytes() - after_warm_up
        print(f"memory: {after_warm_up / 1e6:.1f} MB after warm-up, {growth_bytes / 1e6:+.1f} MB")
        assert growth_bytes < ALLOWED_GROWTH_BYTES

    async def _round(self, served: Mapping[ApiKey, tuple[int, int]], ids: list[UUID]) -> None:
        gunners = [
            Gunner(
                plain_door(self._broker.port),
                ShotMaker(Random(self._random.random()), served, ids, self._acquaintances),
            )
            for _ in range(GUNNERS)
        ]
        each = REQUESTS // (ROUNDS * GUNNERS)
        await asyncio.gather(*(gunner.fire(each) for gunner in gunners))
        for gunner in gunners:
            await gunner.close()
        answers, closed = sum(g.answers for g in gunners), sum(g.closed for g in gunners)
        unanswered = [shot for gunner in gunners for shot in gunner.unanswered]
        print(f"{each * GUNNERS} shots: {answers} answers, {closed} closed")
        assert not unanswered, f"neither answered nor closed: {unanswered[:3]}"

    async def _tidy(self, admin: Admin) -> None:
        """Broken names make new topics and good ones delete ours: put it back as it was."""
        names = {topic.name for topic in await admin.list_topics()}
        wanted = {WITNESS_TOPIC, *FUZZ_TOPICS}
        if names - wanted:
            await admin.delete_topics(sorted(names - wanted))
        missing = sorted(wanted - names)
        if missing:
            await admin.create_topics([NewTopic(name, 2, 1) for name in missing])


def have_loaded(bootstrap: str) -> bool:
    """Whether both coordinators have read their logs."""
    with RawClient(bootstrap) as client:
        questions = (ListGroupsRequest(), ListTransactionsRequest())
        answers = [client.ask(question, 0).error_code for question in questions]
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS not in answers


async def topic_ids(admin: Admin) -> list[UUID]:
    described = await admin.describe_topics(FUZZ_TOPICS)
    return [topic.topic_id for topic in described]
