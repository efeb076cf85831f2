"""A connection's security: the TLS context and the SASL mechanism with its secrets.

Built by `cluster.py` from client settings and by `broker.links` from broker settings. Reads the
TLS files when a connection needs them, for the first time or after they have changed.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import logging
import secrets
import ssl
from collections.abc import Callable
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from floodmark.client.errors import AuthenticationError
from floodmark.client.security_settings import Login, SecuritySettings
from floodmark.clock import Clock, SystemClock
from floodmark.security.errors import SecurityError
from floodmark.security.oauthbearer import OAuthBearerClient
from floodmark.security.plain import PlainClient
from floodmark.security.sasl import OAUTHBEARER, PLAIN, SCRAM_HASHES, ClientMechanism
from floodmark.security.scram import ScramClient
from floodmark.security.tls_context import FileMarks, client_context, file_marks
from floodmark.security.tls_settings import TlsSettings

logger = logging.getLogger(__name__)

NONCE_BYTES = 24
TOKEN_TIMEOUT_S = 10
MAX_TOKEN_ANSWER_BYTES = 1 << 20
UNSECURED_LIFETIME_S = 3600
"""Java's default lifetime for tokens that a client creates itself."""


class Security:
    def __init__(
        self,
        settings: SecuritySettings,
        *,
        tls: Callable[[], TlsSettings] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`tls` returns what replaces the TLS settings in `settings`, and may change."""
        self._settings = settings
        self._tls = tls
        self._clock = clock or SystemClock()
        self._context: ssl.SSLContext | None = None
        self._last_token: str | None = None
        # The settings and the state of the files that the context was made from.
        self._made_from: tuple[TlsSettings, FileMarks] | None = None
        self.uses_sasl = settings.uses_sasl
        self.mechanism_name = settings.sasl_mechanism

    def context(self) -> ssl.SSLContext | None:
        """For a new connection; None without TLS.

        Files that have been replaced are read again: a client may live longer than its certificate.
        Raises AuthenticationError if the files are unusable and never were usable.
        """
        if not self._settings.uses_tls:
            return None
        tls = self._settings.tls if self._tls is None else self._tls()
        made_from = (tls, file_marks(tls))
        if made_from != self._made_from:
            try:
                self._context = client_context(tls)
                self._made_from = made_from
            except SecurityError as problem:
                if self._context is None:
                    text = f"{problem}. {problem.hint}".rstrip(". ")
                    raise AuthenticationError(text) from problem
        return self._context

    async def mechanism(self) -> ClientMechanism:
        """A state machine for one authentication."""
        login, name = self._settings.login, self.mechanism_name
        if name == PLAIN:
            return PlainClient(login.name, login.password)
        if name == OAUTHBEARER:
            return OAuthBearerClient(await self._token_or_last(login))
        return ScramClient(
            SCRAM_HASHES[name],
            login.name,
            login.password,
            secrets.token_urlsafe(NONCE_BYTES),
            is_token=login.is_token,
        )

    async def _token_or_last(self, login: Login) -> str:
        """The last token if there is no new one: whether it is still valid, the broker knows.

        A function of the user's may raise anything.
        """
        try:
            self._last_token = await self._token(login)
        except Exception as problem:
            source = self._settings.sasl_oauthbearer_token_endpoint_url or "its function"
            text = f"could not get a token from {source}: {problem}"
            if self._last_token is None:
                raise AuthenticationError(text) from problem
            logger.warning("%s; using the last one", text)
        return self._last_token

    async def _token(self, login: Login) -> str:
        source = self._settings.sasl_oauthbearer_token
        if isinstance(source, str):
            return source
        if source is not None:
            made = source()
            return await made if inspect.isawaitable(made) else made
        url = self._settings.sasl_oauthbearer_token_endpoint_url
        if url:
            return await asyncio.to_thread(fetch_token, url, login)
        return unsecured_token(login, self._clock.now_ms() // 1000)


def fetch_token(url: str, login: Login) -> str:
    """Gets a token from a file, or from a token endpoint with client credentials (RFC 6749)."""
    if url.lower().startswith("file:"):
        with urlopen(url, timeout=TOKEN_TIMEOUT_S) as file:
            return str(file.read(MAX_TOKEN_ANSWER_BYTES).decode().strip())
    if not url.lower().startswith(("http:", "https:")):
        raise ValueError("the URL must begin with https:, http: or file:")
    form = {"grant_type": "client_credentials"} | ({"scope": login.scope} if login.scope else {})
    basic = base64.b64encode(f"{login.client_id}:{login.client_secret}".encode()).decode()
    request = Request(
        url,
        urlencode(form).encode(),
        {"Authorization": f"Basic {basic}", "Accept": "application/json"},
    )
    try:
        with urlopen(request, timeout=TOKEN_TIMEOUT_S) as answer:
            document = json.loads(answer.read(MAX_TOKEN_ANSWER_BYTES))
    except HTTPError as refusal:
        with refusal:
            raise OSError(f"the token endpoint responded with {refusal.code}") from None
    except URLError as problem:
        raise OSError(f"the token endpoint is unreachable: {problem.reason}") from None
    token = document.get("access_token") if isinstance(document, dict) else None
    if not isinstance(token, str) or not token:
        raise ValueError("the response has no access_token")
    return token


def unsecured_token(login: Login, now_s: int) -> str:
    """An unsigned token, as Java's login module creates for tests."""
    header = {"alg": "none"}
    claims = {"iat": now_s, "exp": now_s + UNSECURED_LIFETIME_S, **login.unsecured_claims}
    return f"{_part(header)}.{_part(claims)}."


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
