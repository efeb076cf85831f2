"""PLAIN, OAUTHBEARER, the claims of tokens, and JAAS lines."""

import base64
import json

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

from floodmark.security.errors import AuthenticationFailed, ProtocolViolation, SecurityError
from floodmark.security.jaas import parse_jaas
from floodmark.security.oauthbearer import OAuthBearerClient, OAuthBearerServer
from floodmark.security.plain import PlainClient, PlainServer
from floodmark.security.sasl import Identity
from floodmark.security.tokens import TokenRules, identity_of, signed_claims, unsecured_claims

USERS = {"alice": "alice-secret", "empty": ""}


def test_a_name_and_its_password_authenticate():
    client = PlainClient("alice", "alice-secret")
    step = PlainServer(USERS).step(client.first())
    assert step == (b"", Identity("alice"))
    assert client.step(step.reply) is None


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0nobody\0x", "Invalid username or password"),
        (b"\0nobody\0", "password not specified"),
        (b"\0empty\0", "password not specified"),
        (b"\0\0x", "username not specified"),
        (b"bob\0alice\0alice-secret", "authorization id"),
        (b"alice\0alice-secret", "expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "expected 3 tokens, got 4"),
        (b"", "expected 3 tokens, got 1"),
        (b"\0\xff\0x", "not UTF-8"),
    ],
)
def test_all_other_messages_are_refused(message, why):
    with pytest.raises(AuthenticationFailed, match=why) as caught:
        PlainServer(USERS).step(message)
    assert "alice-secret" not in str(caught.value)


def accepting(token: str) -> Identity:
    if token != "good.token.x":
        raise AuthenticationFailed("no")
    return Identity("alice", 1000)


def test_a_token_that_counts_authenticates():
    client = OAuthBearerClient("good.token.x", {"traceId": "123"})
    step = OAuthBearerServer(accepting).step(client.first())
    assert step == (b"", Identity("alice", 1000))


def test_a_refused_token_fails_after_the_client_has_acknowledged():
    machine = OAuthBearerServer(accepting)
    client = OAuthBearerClient("bad.token.x")
    step = machine.step(client.first())
    assert json.loads(step.reply) == {"status": "invalid_token"} and step.identity is None
    acknowledgement = client.step(step.reply)
    assert acknowledgement == b"\x01"
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        machine.step(acknowledgement)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer x y\x01\x01",
        b"n,,\x01auth=Bearer good.token.x\x01",
        b"\xff",
        b"y,,\x01auth=Bearer good.token.x\x01\x01",
    ],
)
def test_first_messages_without_a_token_are_refused(message):
    with pytest.raises(ProtocolViolation):
        OAuthBearerServer(accepting).step(message)


def test_another_authorization_id_than_the_tokens_is_refused():
    with pytest.raises(AuthenticationFailed, match="authorization id"):
        OAuthBearerServer(accepting).step(b"n,a=bob,\x01auth=Bearer good.token.x\x01\x01")


NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
CLAIMS = {"sub": "alice", "exp": NOW_S + 60, "iat": NOW_S, "iss": "me", "aud": ["kafka", "x"]}
RULES = TokenRules(audiences=("kafka",), issuer="me", clock_skew_ms=5000)


def test_claims_that_count():
    assert identity_of(CLAIMS, RULES, NOW_MS) == Identity("alice", (NOW_S + 60) * 1000)
    late = NOW_MS + 64_000
    assert identity_of(CLAIMS, RULES, late).name == "alice", "within the skew of the clocks"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"exp": NOW_S - 6}, "expired"),
        ({"exp": None}, "no expiry"),
        ({"exp": "soon"}, "not a time"),
        ({"exp": True}, "not a time"),
        ({"exp": 1e300}, "not a time"),
        ({"iat": NOW_S + 6}, "not valid yet"),
        ({"nbf": NOW_S + 6}, "not valid yet"),
        ({"iss": "other"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "other"}, "audience"),
        ({"aud": 7}, "audience"),
        ({"sub": " "}, "subject"),
        ({"sub": 7}, "subject"),
    ],
)
def test_claims_that_do_not_count(change, why):
    with pytest.raises(AuthenticationFailed, match=why):
        identity_of({**CLAIMS, **change}, RULES, NOW_MS)


def test_only_tokens_signed_by_a_published_key_are_read():
    ours, theirs = RSAKey.generate_key(2048), RSAKey.generate_key(2048)
    published = KeySet([RSAKey.import_key(ours.as_dict(private=False))])
    assert signed_claims(jwt.encode({"alg": "RS256"}, CLAIMS, ours), published)["sub"] == "alice"
    forged = jwt.encode({"alg": "RS256"}, CLAIMS, theirs)
    # The public key taken for the secret of a symmetric algorithm.
    secret = OctKey.import_key(json.dumps(ours.as_dict(private=False)))
    confused = jwt.encode({"alg": "HS256"}, CLAIMS, secret)
    # A header that joserfc raises a TypeError for.
    odd = ".".join(part(one) for one in ({"alg": "RS256", "crit": 1}, CLAIMS, {}))
    for token in (forged, confused, odd, unsecured(CLAIMS), "", "x", "a.b.c", "x" * 100_000):
        with pytest.raises(AuthenticationFailed):
            signed_claims(token, published)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def unsecured(claims: object, alg: str = "none") -> str:
    return f"{part({'alg': alg})}.{part(claims)}."


def test_tokens_without_a_signature_are_read_where_they_are_asked_for():
    assert unsecured_claims(unsecured(CLAIMS))["sub"] == "alice"
    for token in (unsecured(CLAIMS, "RS256"), unsecured(CLAIMS) + "x", "..", "a.b.", unsecured([])):
        with pytest.raises(AuthenticationFailed):
            unsecured_claims(token)


def test_jaas_lines_are_read_as_they_are():
    entry = parse_jaas(
        """org.apache.kafka.common.security.plain.PlainLoginModule required
        // the admin
        username="admin" password="a \\"quoted\\" secret;"
        user_admin=unquoted user_alice="";"""
    )
    assert entry.module.endswith("PlainLoginModule")
    assert entry.options["password"] == 'a "quoted" secret;'
    assert entry.users == {"admin": "unquoted", "alice": ""}
    assert "secret" not in repr(entry)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "Module required",
        'Module required a="secret"',
        'Module a="secret";',
        'Module required a="secret;',
        "Module required secret;",
        'Module required a = = "secret";',
        'Module required a="secret"; Module required;',
    ],
)
def test_jaas_lines_that_cannot_be_read_are_refused_without_showing_them(text):
    with pytest.raises(SecurityError) as caught:
        parse_jaas(text, "listener.name.x.plain.sasl.jaas.config")
    assert "secret" not in str(caught.value)
    assert "listener.name.x.plain" in str(caught.value)
