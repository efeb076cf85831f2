"""SCRAM answers unknown names as it answers users: nothing shows which names exist."""

import secrets
from collections import Counter

from floodmark.security.pretended_users import KnownUsers
from floodmark.security.scram_credentials import ScramCredential

NAMES = [f"nobody-{number}" for number in range(400)]


def stored(salt: bytes, iterations: int) -> str:
    return ScramCredential(salt, secrets.token_bytes(32), bytes(32), iterations).text()


def answers(users: KnownUsers) -> list[ScramCredential]:
    return [users.pretence(name).credential("sha256", name) for name in NAMES]


def test_iterations_and_salts_are_those_of_users():
    users = KnownUsers({"a": stored(bytes(range(20)), 8192), "b": stored(bytes(20), 8192)}, b"x")
    assert {(len(one.salt), one.iterations) for one in answers(users)} == {(20, 8192)}
    assert len({one.salt for one in answers(users)}) == len(NAMES)


def test_where_users_differ_unknown_names_do_as_well_and_as_often():
    text = b"1x2y3z4a5b6c7d8e9f0g1h2i3"
    users = {f"user-{number}": stored(bytes(range(20)), 4096) for number in range(3)}
    users["java"] = stored(text, 16384)
    counts = Counter((one.iterations, len(one.salt)) for one in answers(KnownUsers(users, b"x")))
    assert counts.keys() == {(4096, 20), (16384, len(text))}
    assert 0.15 < counts[16384, len(text)] / len(NAMES) < 0.35
    assert all(one.salt.isalnum() for one in answers(KnownUsers(users, b"x")) if len(one.salt) > 20)


def test_another_broker_and_a_later_start_answer_the_same():
    users = {name: stored(secrets.token_bytes(20), 4096) for name in ("alice", "bob")}
    assert answers(KnownUsers(users, b"x")) == answers(KnownUsers(dict(users), b"y"))
    more = {**users, "carol": stored(secrets.token_bytes(20), 4096)}
    assert answers(KnownUsers(more, b"x")) == answers(KnownUsers(users, b"x"))


def test_without_users_there_is_an_answer_too():
    assert {one.iterations for one in answers(KnownUsers({}, b"x"))} == {4096}
    assert answers(KnownUsers({}, b"x")) == answers(KnownUsers({}, b"x"))


def test_a_stored_credential_that_cannot_be_read_is_nobodys():
    users = KnownUsers({"alice": "nonsense"}, b"x")
    assert users.find("alice") is None
    assert {one.iterations for one in answers(users)} == {4096}
