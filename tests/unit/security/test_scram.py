"""SCRAM by the vectors of its RFCs, and every way to cheat."""

import base64
import contextlib
import hashlib
import hmac
import tracemalloc

import pytest

from floodmark.security.errors import AuthenticationFailed, ProtocolViolation
from floodmark.security.pretended_users import Pretence
from floodmark.security.sasl import Identity
from floodmark.security.scram import MAX_MESSAGE_BYTES, Lookup, ScramClient, ScramServer
from floodmark.security.scram_credentials import (
    ScramCredential,
    credential_of,
    parse_credential,
    salted_password,
)

PRETENCE = Pretence(b"server secret")


def credential(password: str, hash_name: str = "sha256", salt: bytes = b"salt") -> ScramCredential:
    salted = salted_password(hash_name, password, salt, 4096)
    return credential_of(hash_name, salted, salt, 4096)


def server(
    users: dict[str, ScramCredential], hash_name: str = "sha256", nonce: str = "server-nonce"
) -> ScramServer:
    def find(name: str, is_token: bool) -> Lookup:
        key = f"token:{name}" if is_token else name
        return Lookup(users.get(key), Identity(name, is_by_token=is_token), PRETENCE)

    return ScramServer(hash_name, find, nonce)


def test_the_exchange_of_rfc_7677():
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    machine = server(
        {"user": credential("pencil", salt=salt)}, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    client = ScramClient("sha256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    first = client.first()
    assert first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = machine.step(first).reply
    assert challenge == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = client.step(challenge)
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    last = machine.step(final)
    assert last.reply == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert last.identity == Identity("user")
    assert client.step(last.reply) is None


@pytest.mark.parametrize("hash_name", ["sha256", "sha512"])
@pytest.mark.parametrize("name", ["alice", "a,b=c", "=2C", "żółw", "CN=x,O=y"])
def test_any_name_can_authenticate(hash_name, name):
    machine = server({name: credential("pass,word=", hash_name)}, hash_name)
    client = ScramClient(hash_name, name, "pass,word=", "nonce")
    step = machine.step(client.step(machine.step(client.first()).reply))
    assert step.identity == Identity(name)
    assert client.step(step.reply) is None


def test_a_token_authenticates_by_its_id_and_is_known_as_one():
    machine = server({"token:t1": credential("secret")})
    client = ScramClient("sha256", "t1", "secret", "nonce", is_token=True)
    step = machine.step(client.step(machine.step(client.first()).reply))
    assert step.identity == Identity("t1", is_by_token=True)
    machine = server({"token:t1": credential("secret")})
    client = ScramClient("sha256", "t1", "secret", "nonce")
    with pytest.raises(ProtocolViolation):
        machine.step(client.step(machine.step(client.first()).reply))


def exchange(machine: ScramServer, client: ScramClient) -> None:
    machine.step(client.step(machine.step(client.first()).reply))


def test_a_wrong_password_and_an_unknown_name_fail_at_the_same_step_with_the_same_error():
    users = {"alice": credential("right")}
    errors = []
    for name in ("alice", "nobody"):
        with pytest.raises(ProtocolViolation) as caught:
            exchange(server(users), ScramClient("sha256", name, "wrong", "nonce"))
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


def test_an_unknown_name_has_the_same_salt_each_time():
    replies = {
        server({}).step(ScramClient("sha256", "nobody", "x", "n").first()).reply for _ in range(3)
    }
    assert len(replies) == 1


def test_the_credential_of_zeros_of_an_unknown_name_lets_nobody_in():
    """Whoever guesses the pretended stored key still has no key that hashes to it, and no
    identity."""
    machine = server({})
    client = ScramClient("sha256", "nobody", "x", "n")
    challenge = machine.step(client.first()).reply.decode()
    bare = f"c=biws,r={challenge.split(',')[0][2:]}"
    signed = f"{client.first().decode()[3:]},{challenge},{bare}".encode()
    proof = base64.b64encode(hmac.digest(bytes(32), signed, hashlib.sha256)).decode()
    with pytest.raises(ProtocolViolation):
        machine.step(f"{bare},p={proof}".encode())


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff\xfe",
        b"n,,",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,n=,r=x",
        b"n,,n=a=b,r=x",
        b"n,,r=x,n=alice",
        b"n,,n=alice",
        b"n,,m=ext,n=alice,r=x",
        b"c=biws,r=x,p=eA==",
        b"n,,n=alice,r=" + b"\x01",
    ],
)
def test_first_messages_that_are_none_are_refused(message):
    with pytest.raises(ProtocolViolation):
        server({"alice": credential("x")}).step(message)


def test_another_authorization_id_is_refused():
    with pytest.raises(AuthenticationFailed, match="authorization id"):
        server({"alice": credential("x")}).step(b"n,a=bob,n=alice,r=x")


@pytest.mark.parametrize(
    "change",
    [
        lambda final: final.replace(b"r=nonce", b"r=other"),
        lambda final: final.replace(b"c=biws", b"c=eSws"),
        lambda final: final[:-4] + b"AAA=",
        lambda final: final.split(b",p=")[0],
        lambda final: final.split(b",p=")[0] + b",p=",
        lambda final: final.split(b",p=")[0] + b",p=eA==",
        lambda final: final.split(b",p=")[0] + b",p=*",
        lambda final: b"",
    ],
)
def test_final_messages_that_were_changed_are_refused(change):
    machine = server({"alice": credential("right")})
    client = ScramClient("sha256", "alice", "right", "nonce")
    final = client.step(machine.step(client.first()).reply)
    with pytest.raises(AuthenticationFailed):
        machine.step(change(final))


def test_a_proof_that_was_recorded_does_not_work_again():
    users = {"alice": credential("right")}
    recorded = server(users, nonce="one")
    client = ScramClient("sha256", "alice", "right", "nonce")
    final = client.step(recorded.step(client.first()).reply)
    assert recorded.step(final).identity
    other = server(users, nonce="two")
    other.step(client.first())
    with pytest.raises(ProtocolViolation):
        other.step(final)
    with pytest.raises(ProtocolViolation):
        recorded.step(final)


def test_a_failed_machine_cannot_be_used_again():
    machine = server({"alice": credential("right")})
    client = ScramClient("sha256", "alice", "right", "nonce")
    final = client.step(machine.step(client.first()).reply)
    with pytest.raises(ProtocolViolation):
        machine.step(final[:-4] + b"AAA=")
    with pytest.raises(ProtocolViolation):
        machine.step(final)


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other,s=c2FsdA==,i=4096",
        b"r=noncex,s=c2FsdA==,i=1",
        b"r=noncex,s=c2FsdA==,i=999999999",
        b"r=noncex,s=*,i=4096",
        b"nonsense",
    ],
)
def test_a_client_does_not_follow_a_strange_server(challenge):
    with pytest.raises(AuthenticationFailed):
        ScramClient("sha256", "alice", "x", "nonce").step(challenge)


def test_a_client_notices_a_server_that_does_not_know_the_password():
    machine = server({"alice": credential("right")})
    client = ScramClient("sha256", "alice", "right", "nonce")
    machine.step(client.step(machine.step(client.first()).reply))
    with pytest.raises(AuthenticationFailed, match="could not prove that it knows the password"):
        client.step(b"v=" + base64.b64encode(bytes(32)))


def test_credentials_have_kafkas_text():
    made = credential("alice-secret", salt=b"1lt")
    text = made.text()
    assert text.startswith("salt=MWx0,stored_key=") and text.endswith(",iterations=4096")
    assert parse_credential(text) == made
    assert "stored" not in repr(made)
    for bad in ("", "salt=x", text.replace("iterations=4096", "iterations=many")):
        with pytest.raises(ValueError):
            parse_credential(bad)


@pytest.mark.parametrize(
    "message",
    [
        b"n,,n=" + b"x" * 16_000 + b",r=a",
        b"n,,n=" + b"=2C" * 5_000 + b",r=a",
        b"n,a=" + b"x" * 16_000,
        b"n,,n=user,r=a" + b",a=b" * 4_000,
    ],
)
def test_the_largest_messages_cost_no_more_memory_than_their_size(message):
    """`re` kept some hundred bytes for each character, to come back to."""
    assert MAX_MESSAGE_BYTES * 0.9 < len(message) < MAX_MESSAGE_BYTES
    machine = server({"user": credential("pencil")})
    tracemalloc.start()
    try:
        with contextlib.suppress(AuthenticationFailed):
            machine.step(message)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 10 * len(message)


def test_a_message_that_would_have_to_be_kept_is_not_larger_than_it_needs_to_be():
    machine = server({"user": credential("pencil")})
    with pytest.raises(ProtocolViolation):
        machine.step(b"n,,n=user,r=" + b"x" * MAX_MESSAGE_BYTES)
    challenge = machine.step(b"n,,n=user,r=x").reply
    with pytest.raises(ProtocolViolation):
        machine.step(b"c=biws," + challenge + b",p=" + b"x" * MAX_MESSAGE_BYTES)
