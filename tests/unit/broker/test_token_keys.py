"""OAUTHBEARER with signed tokens: keys from a file, tokens from an endpoint or a file."""

import asyncio
import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from floodmark.client.errors import AuthenticationError
from floodmark.wire.messages.metadata import MetadataRequest
from kit.secure_broker import SecureBroker, secure_broker
from kit.waiting import wait_for

KEY, OTHER = (RSAKey.generate_key(2048, {"kid": kid}) for kid in ("one", "two"))


def publish(path: Path, *keys: RSAKey) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"keys": [key.as_dict(private=False) for key in keys]}))
    fresh.rename(path)


def token(key: RSAKey = KEY, **changes: Any) -> str:
    now = int(time.time())
    claims = {"sub": "carol", "iss": "us", "aud": "kafka", "iat": now, "exp": now + 60, **changes}
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[SecureBroker]:
    with secure_broker(
        tmp_path,
        floodmark_sasl_oauthbearer_unsecured_tokens="false",
        sasl_oauthbearer_jwks_endpoint_url=(tmp_path / "keys.json").as_uri(),
        sasl_oauthbearer_jwks_endpoint_refresh_ms="200",
        sasl_oauthbearer_jwks_endpoint_retry_backoff_ms="50",
        sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms="100",
        sasl_oauthbearer_expected_issuer="us",
        sasl_oauthbearer_expected_audience="kafka,other",
        sasl_oauthbearer_clock_skew_seconds="1",
    ) as running:
        yield running


async def enter(secure: SecureBroker, **given: Any) -> None:
    connection = await secure.connect("SASL_SSL", sasl_mechanism="OAUTHBEARER", **given)
    assert (await connection.request(MetadataRequest())).brokers
    await connection.close()


def key_ids(secure: SecureBroker) -> list[str | None]:
    (keys,) = secure.broker.broker.sasl._keys.values()
    return [] if keys.key_set is None else [key.kid for key in keys.key_set.keys]


async def test_only_tokens_that_count_let_a_client_in(secure, tmp_path):
    with pytest.raises(AuthenticationError, match="invalid_token"):
        await enter(secure, sasl_oauthbearer_token=token())
    publish(tmp_path / "keys.json", KEY)
    wait_for(lambda: key_ids(secure) == ["one"])
    await enter(secure, sasl_oauthbearer_token=token())
    for bad in (
        token(OTHER),
        token(exp=int(time.time()) - 5),
        token(iss="them"),
        token(aud="elsewhere"),
        token(sub=""),
        token().rpartition(".")[0] + ".",
    ):
        with pytest.raises(AuthenticationError, match="invalid_token"):
            await enter(secure, sasl_oauthbearer_token=bad)


async def test_keys_are_read_again_and_broken_ones_do_not_replace_them(secure, tmp_path):
    path = tmp_path / "keys.json"
    publish(path, KEY)
    wait_for(lambda: key_ids(secure) == ["one"])
    path.write_text("nonsense")
    await enter(secure, sasl_oauthbearer_token=token())
    publish(path, OTHER)
    wait_for(lambda: key_ids(secure) == ["two"])
    with pytest.raises(AuthenticationError):
        await enter(secure, sasl_oauthbearer_token=token())
    await enter(secure, sasl_oauthbearer_token=token(OTHER))


class Endpoint(BaseHTTPRequestHandler):
    """A token endpoint that knows one client."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        expected = "Basic " + base64.b64encode(b"me:my-secret").decode()
        is_right = self.headers["Authorization"] == expected
        self.send_response(200 if is_right else 401)
        self.end_headers()
        if is_right and body == "grant_type=client_credentials&scope=read":
            self.wfile.write(json.dumps({"access_token": token()}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()
        thread.join()


def credentials(secret: str) -> str:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    return f'{module} required clientId="me" clientSecret="{secret}" scope="read";'


async def test_a_client_gets_its_token_from_an_endpoint_or_a_file(secure, tmp_path, endpoint):
    publish(tmp_path / "keys.json", KEY)
    wait_for(lambda: key_ids(secure) == ["one"])
    await enter(
        secure,
        sasl_oauthbearer_token_endpoint_url=endpoint,
        sasl_jaas_config=credentials("my-secret"),
    )
    with pytest.raises(AuthenticationError, match="could not get a token") as caught:
        await enter(
            secure,
            sasl_oauthbearer_token_endpoint_url=endpoint,
            sasl_jaas_config=credentials("wrong-secret"),
        )
    assert "wrong-secret" not in str(caught.value)
    file = tmp_path / "token"
    file.write_text(token() + "\n")
    await enter(secure, sasl_oauthbearer_token_endpoint_url=file.as_uri())


async def test_a_token_with_a_new_key_makes_the_broker_look_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr("floodmark.broker.token_keys.EXPEDITED_INTERVAL_S", 0.2)
    path = tmp_path / "keys.json"
    publish(path, KEY)
    with secure_broker(
        tmp_path,
        floodmark_sasl_oauthbearer_unsecured_tokens="false",
        sasl_oauthbearer_jwks_endpoint_url=path.as_uri(),
    ) as secure:
        wait_for(lambda: key_ids(secure) == ["one"])
        await enter(secure, sasl_oauthbearer_token=token())
        publish(path, KEY, OTHER)
        await asyncio.sleep(0.2)
        # A known key with a wrong signature is no reason to look.
        forged = token().rpartition(".")[0] + "." + token(OTHER).rpartition(".")[2]
        with pytest.raises(AuthenticationError, match="invalid_token"):
            await enter(secure, sasl_oauthbearer_token=forged)
        assert key_ids(secure) == ["one"]
        with pytest.raises(AuthenticationError, match="invalid_token"):
            await enter(secure, sasl_oauthbearer_token=token(OTHER))
        wait_for(lambda: key_ids(secure) == ["one", "two"])
        await enter(secure, sasl_oauthbearer_token=token(OTHER))
