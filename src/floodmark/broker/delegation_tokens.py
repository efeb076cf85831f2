"""The delegation tokens that this broker knows, with their secrets, for SCRAM and for requests.

Created by `broker.broker`. Follows the tokens in the image. Disabled without
`delegation.token.secret.key`.
"""

from __future__ import annotations

from floodmark.clock import Clock
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import Delta, MetadataImage
from floodmark.security.delegation_tokens import DelegationToken, hmac_of, password_of
from floodmark.security.pretended_users import Pretence
from floodmark.security.sasl import SCRAM_HASHES, Identity
from floodmark.security.scram import Lookup
from floodmark.security.scram_credentials import (
    MIN_ITERATIONS,
    ScramCredential,
    credential_of,
    salted_password,
)

SALT_BYTES = 32


class DelegationTokens:
    def __init__(self, metadata: MetadataCache, clock: Clock) -> None:
        self._metadata = metadata
        self._clock = clock
        self._secret_key = metadata.config.get_optional_str("delegation.token.secret.key") or ""
        # An unknown token is answered like one that exists.
        secret = hmac_of("unknown tokens", self._secret_key)
        self._pretence = Pretence(secret, salt_bytes=SALT_BYTES)
        self._ids: dict[bytes, str] = {}
        # Filled at the first login with a token: hashing takes milliseconds.
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        metadata.subscribe(self._image_changed)

    @property
    def is_enabled(self) -> bool:
        return bool(self._secret_key)

    def hmac_of(self, token: DelegationToken) -> bytes:
        return hmac_of(token.token_id, self._secret_key)

    def find(self, token_hmac: bytes) -> DelegationToken | None:
        return self._metadata.image.tokens.get(self._ids.get(token_hmac, ""))

    def lookup(self, mechanism: str, token_id: str) -> Lookup:
        """For a SCRAM login. There is no credential if the token is unknown or has expired."""
        token = self._metadata.image.tokens.get(token_id)
        if token is None or not self.is_enabled or token.is_over(self._clock.now_ms()):
            return Lookup(None, Identity(token_id), self._pretence)
        owner = token.owner.partition(":")[2]
        identity = Identity(owner, token.expiry_ms, is_by_token=True)
        return Lookup(self._credential(mechanism, token), identity, self._pretence)

    def _credential(self, mechanism: str, token: DelegationToken) -> ScramCredential:
        key = (token.token_id, mechanism)
        if key not in self._credentials:
            hash_name = SCRAM_HASHES[mechanism]
            # All brokers derive the same salt, as they do for an unknown token.
            salt = self._pretence.credential(hash_name, token.token_id).salt
            password = password_of(self.hmac_of(token))
            salted = salted_password(hash_name, password, salt, MIN_ITERATIONS)
            self._credentials[key] = credential_of(hash_name, salted, salt, MIN_ITERATIONS)
        return self._credentials[key]

    def _image_changed(self, image: MetadataImage, delta: Delta) -> None:
        if not self.is_enabled:
            return
        for token_id in delta.changed_tokens:
            token_hmac = hmac_of(token_id, self._secret_key)
            if token_id in image.tokens:
                self._ids[token_hmac] = token_id
            else:
                self._ids.pop(token_hmac, None)
                for mechanism in SCRAM_HASHES:
                    self._credentials.pop((token_id, mechanism), None)
