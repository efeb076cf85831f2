"""The log cleaner as a part of the broker. Called by broker.py and dynamic_settings.py.

Its code is imported, and it starts, after the first clients are served.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import TYPE_CHECKING

from floodmark.broker.delayed_work import Deferred
from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.files import Files

if TYPE_CHECKING:
    from floodmark.storage.compaction.cleaner import CleanerSettings, LogCleaner


class Cleaning:
    def __init__(
        self,
        files: Files,
        replicas: ReplicaManager,
        clock: Clock,
        executor: Executor,
        deferred: Deferred,
    ) -> None:
        self._files = files
        self._replicas = replicas
        self._clock = clock
        self._executor = executor
        self._deferred = deferred
        self.cleaner: LogCleaner | None = None

    def start(self, config: BrokerConfig) -> None:
        from floodmark.storage.compaction.cleaner import LogCleaner

        self.cleaner = LogCleaner(
            self._files,
            lambda: [
                (r.log, r.core.high_watermark)
                for r in self._replicas.replicas
                if not r.log.is_truncating
            ],
            self._clock,
            self._executor,
            self._deferred.run_later,
            _settings(config),
        )
        self.cleaner.start()

    def configure(self, config: BrokerConfig) -> None:
        if self.cleaner is not None:
            self.cleaner.settings = _settings(config)

    async def close(self) -> None:
        if self.cleaner is not None:
            await self.cleaner.close()


def _settings(config: BrokerConfig) -> CleanerSettings:
    from floodmark.storage.compaction.cleaner import CleanerSettings

    return CleanerSettings(
        backoff_ms=config.get_int("log.cleaner.backoff.ms"),
        dedupe_buffer_bytes=config.get_int("log.cleaner.dedupe.buffer.size"),
        io_bytes_per_second=config.get_float("log.cleaner.io.max.bytes.per.second"),
    )
