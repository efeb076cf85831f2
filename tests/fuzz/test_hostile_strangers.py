"""The fuzz against a broker with security on: before, during and after authentication.

A stranger gets answers to ApiVersions, SaslHandshake and SaslAuthenticate and to nothing else. No
attempt without a password gets in. A user without rights changes nothing and learns nothing.
Meanwhile an admin is served over TLS, memory stays flat, and no request fails inside the broker.
`FLOODMARK_FUZZ_REQUESTS` says how many are fired, `FLOODMARK_SEED` repeats a run.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import ConfigResource, NewTopic
from floodmark.client.cluster.connection import Connection, ConnectionOptions
from floodmark.client.cluster.security import Security
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ConsumerSettings, ProducerSettings
from floodmark.security.scram import ScramClient
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from floodmark.wire.messages.sasl_handshake import SaslHandshakeRequest
from fuzz_kit.failures import distinct_failures
from fuzz_kit.gunner import Door, Gunner
from fuzz_kit.intruder import Intruder
from fuzz_kit.locked_broker import ALICE, PASSWORDS, LockedBroker, ask, start_locked_broker
from fuzz_kit.looking import open_sockets, served_by
from fuzz_kit.raw_client import answer_of, request_bytes
from fuzz_kit.shots import Shot, ShotMaker
from fuzz_kit.witness import Witness
from kit.seeds import seed
from kit.waiting import wait_for

REQUESTS = max(1500, int(os.environ.get("FLOODMARK_FUZZ_REQUESTS", "0")) // 10)
SEED = seed()
GUNNERS = 6
ALLOWED_GROWTH_BYTES = 32 * 1024 * 1024
"""At any moment: some tokens of half a megabyte are under way at a time."""
LONGEST_STALL_S = 0.25
SLOWEST_ALLOWED_S = 5.0
WITNESS_TOPIC = "witness"
FUZZ_TOPICS = ("fuzz-0", "fuzz-1", "fuzz-2")
MARK = "kronjuwel"
"""In names and values that nobody without rights may see, and that the fuzz does not know."""
FOR_STRANGERS = {ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE}

pytestmark = pytest.mark.timeout(1500)


@contextmanager
def locked_broker(folder: Path) -> Iterator[LockedBroker]:
    """It must have served its admin all the time, and be well afterwards."""
    print(f"FLOODMARK_SEED={SEED}, {REQUESTS} requests")
    locked = start_locked_broker(folder)
    process = locked.watched.broker.process
    with process:
        asyncio.run(furnish(locked))
        sockets_before = open_sockets(process)
        locked.watched.reset()
        yield locked
        stall_s, growth_bytes = locked.watched.longest_stall_s(), locked.watched.growth_bytes()
        wait_for(lambda: open_sockets(process) <= sockets_before)
        failures = distinct_failures(process.output())
    print(f"longest stall {stall_s:.3f} s, memory +{growth_bytes / 1e6:.1f} MB")
    assert not failures, "\n".join(failures)
    assert stall_s < LONGEST_STALL_S
    assert growth_bytes < ALLOWED_GROWTH_BYTES
    for password in PASSWORDS.values():
        assert password not in process.output()


async def furnish(locked: LockedBroker) -> None:
    """Topics that the fuzz knows and one that it does not, with records, a group and a user."""
    given = locked.admin_settings
    async with Admin(locked.admin_address, given) as admin:
        names = (WITNESS_TOPIC, *FUZZ_TOPICS, f"{MARK}-topic")
        await admin.create_topics([NewTopic(name, 2, 1) for name in names])
        await admin.set_scram_password(ALICE, PASSWORDS[ALICE], mechanism="SCRAM-SHA-256")
        await admin.set_scram_password(f"{MARK}-user", "x", mechanism="SCRAM-SHA-512")
    shared = {name: getattr(given, name) for name in SHARED}
    async with Producer(locked.admin_address, ProducerSettings(**shared)) as producer:
        for name in (*FUZZ_TOPICS, f"{MARK}-topic"):
            await producer.send_and_wait(name, f"{MARK}-value".encode())
    reading = ConsumerSettings(**shared, group_id=f"{MARK}-group", auto_offset_reset="earliest")
    async with Consumer(locked.admin_address, reading) as consumer:
        await consumer.subscribe([f"{MARK}-topic"])
        async for _ in consumer:
            await consumer.commit()
            break


SHARED = (
    "security_protocol",
    "ssl_ca_location",
    "sasl_mechanism",
    "sasl_username",
    "sasl_password",
)


class Guard:
    """`async with` it: a witness over TLS that must be served throughout."""

    def __init__(self, locked: LockedBroker) -> None:
        self._locked = locked

    async def __aenter__(self) -> Mapping[ApiKey, tuple[int, int]]:
        options = ConnectionOptions(security=Security(self._locked.admin_settings))
        self._connection = await Connection.open("127.0.0.1", self._locked.tls_port, options)
        self._witness = Witness(self._connection, WITNESS_TOPIC)
        self._watching = asyncio.create_task(self._witness.watch())
        return served_by(self._connection)

    async def __aexit__(self, *exc_info: object) -> None:
        assert not self._watching.done(), "the witness was not served"
        self._witness.stop()
        await self._watching
        await self._connection.close()
        print(f"witness: {self._witness.rounds} rounds, slowest {self._witness.slowest_s:.3f} s")
        assert self._witness.slowest_s < SLOWEST_ALLOWED_S


async def fire(gunners: list[Gunner], count: int) -> None:
    await asyncio.gather(*(gunner.fire(count // len(gunners)) for gunner in gunners))
    for gunner in gunners:
        await gunner.close()
    unanswered = [shot for gunner in gunners for shot in gunner.unanswered]
    print(f"{sum(g.answers for g in gunners)} answers, {sum(g.closed for g in gunners)} closed")
    assert not unanswered, f"neither answered nor closed: {unanswered[:3]}"
    assert all(gunner.answers for gunner in gunners)


def only_for_strangers(shot: Shot, answer: bytes) -> None:
    api_key = int.from_bytes(shot.data[4:6], "big", signed=True)
    assert api_key in FOR_STRANGERS, f"{shot} was answered {answer[:100]!r}"


def test_a_stranger_gets_no_answer_but_to_authenticate(tmp_path: Path) -> None:
    async def run(locked: LockedBroker) -> None:
        random = Random(SEED)
        async with Guard(locked) as served:
            doors: list[Door] = [locked.open_plain, locked.open_tls]
            gunners = [
                Gunner(
                    doors[number % 2],
                    ShotMaker(Random(random.random()), strangers_first(served)),
                    only_for_strangers,
                )
                for number in range(GUNNERS)
            ]
            await fire(gunners, REQUESTS // 3)

    with locked_broker(tmp_path) as locked:
        asyncio.run(run(locked))


def strangers_first(
    served: Mapping[ApiKey, tuple[int, int]],
) -> Mapping[ApiKey, tuple[int, int]]:
    """Only a few of the other APIs: the first request to one ends the connection."""
    others = sorted(served.keys() - FOR_STRANGERS)[::12]
    return {key: served[key] for key in (*FOR_STRANGERS, *others)}


def test_no_wrong_way_to_authenticate_gets_in(tmp_path: Path) -> None:
    async def run(locked: LockedBroker) -> list[Intruder]:
        random = Random(SEED)
        replay = await recorded_exchange(locked)
        doors: list[Door] = [locked.open_plain, locked.open_plain, locked.open_tls]
        intruders = [
            Intruder(Random(random.random()), doors[number % 3], replay)
            for number in range(GUNNERS)
        ]
        async with Guard(locked):
            await asyncio.gather(*(attempts(one) for one in intruders))
        return intruders

    async def attempts(intruder: Intruder) -> None:
        for _ in range(REQUESTS // 3 // GUNNERS):
            await intruder.attempt()

    with locked_broker(tmp_path) as locked:
        intruders = asyncio.run(run(locked))
    assert [told for intruder in intruders for told in intruder.got_in] == []
    assert sum(intruder.reached for intruder in intruders) > REQUESTS // 30


async def recorded_exchange(locked: LockedBroker) -> list[bytes]:
    """The tokens by which alice got in once, as somebody on the way could have seen them."""
    streams = await locked.open_plain()
    scram = ScramClient("sha256", ALICE, PASSWORDS[ALICE], "the-nonce-of-alice")
    await ask(streams, request_bytes(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1))
    tokens = [scram.first()]
    first = SaslAuthenticateRequest(auth_bytes=tokens[0])
    challenge = answer_of(first, await ask(streams, request_bytes(first, 1)), 1)
    tokens.append(scram.step(bytes(challenge.auth_bytes)) or b"")
    final = SaslAuthenticateRequest(auth_bytes=tokens[1])
    assert answer_of(final, await ask(streams, request_bytes(final, 1)), 1).error_code == 0
    streams[1].close()
    await streams[1].wait_closed()
    return tokens


def test_a_user_without_rights_changes_nothing_and_learns_nothing(tmp_path: Path) -> None:
    def no_secrets(shot: Shot, answer: bytes) -> None:
        assert MARK.encode() not in answer, f"{shot} was answered {answer!r}"

    async def run(locked: LockedBroker) -> None:
        random = Random(SEED)
        async with Admin(locked.admin_address, locked.admin_settings) as admin, Guard(locked) as s:
            before = await everything(admin)
            assert MARK in repr(before)
            ids = [topic.topic_id for topic in await admin.list_topics()]
            gunners = [
                Gunner(
                    locked.open_as_mallory,
                    ShotMaker(Random(random.random()), s, ids),
                    no_secrets,
                )
                for _ in range(GUNNERS)
            ]
            await fire(gunners, REQUESTS)
            after = await everything(admin)
        assert after == before

    with locked_broker(tmp_path) as locked:
        asyncio.run(run(locked))


async def everything(admin: Admin) -> dict[str, Any]:
    """What an admin can see, without what the witness writes."""
    topics = await admin.list_topics(include_internal=True)
    resources = [ConfigResource.broker(1), *(ConfigResource.topic(t.name) for t in topics)]
    ends = await admin.list_offsets(
        {TopicPartition(name, number): -1 for name in FUZZ_TOPICS for number in range(2)}
    )
    return {
        "topics": topics,
        "ends": ends,
        "configs": await admin.describe_configs(resources),
        "groups": await admin.list_groups(),
        "offsets": await admin.list_group_offsets(f"{MARK}-group"),
        "transactions": await admin.list_transactions(),
        "acls": await admin.describe_acls(),
        "quotas": await admin.describe_client_quotas(),
        "users": await admin.describe_scram_users(),
        "features": await admin.describe_features(),
        "reassignments": await admin.list_partition_reassignments(),
    }
