"""Settings for transactions. Created by `broker`, which keeps them current. PURE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class IntSettings(Protocol):
    """What is needed from the broker's configuration."""

    def get_int(self, name: str) -> int: ...


@dataclass(slots=True)
class Limits:
    """`server_version` is the finalized feature `transaction.version`."""

    server_version: int
    max_timeout_ms: int
    expiration_ms: int
    abort_interval_ms: int
    expire_interval_ms: int
    add_retry_backoff_ms: int
    add_retry_max_ms: int

    @classmethod
    def of(cls, config: IntSettings, server_version: int) -> Limits:
        return cls(
            server_version=server_version,
            max_timeout_ms=config.get_int("transaction.max.timeout.ms"),
            expiration_ms=config.get_int("transactional.id.expiration.ms"),
            abort_interval_ms=config.get_int(
                "transaction.abort.timed.out.transaction.cleanup.interval.ms"
            ),
            expire_interval_ms=config.get_int(
                "transaction.remove.expired.transaction.cleanup.interval.ms"
            ),
            add_retry_backoff_ms=config.get_int("add.partitions.to.txn.retry.backoff.ms"),
            add_retry_max_ms=config.get_int("add.partitions.to.txn.retry.backoff.max.ms"),
        )
