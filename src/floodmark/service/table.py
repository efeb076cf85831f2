"""Serves a compacted topic: consumers look up and scan the last row of each key.

    table = Table("revenue", row=Revenue, key="category", interface="dev.shop.RevenueTable")
    async with table.serve("127.0.0.1:9092", registry="zookeeper://..."):

It registers once it has caught up with the topic, and withdraws while it lags too far behind.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple

import msgspec

from floodmark.client import Consumer, ConsumerSettings, KafkaError, TopicPartition
from floodmark.records.record import Record
from floodmark.service.api import settings_of
from floodmark.service.call import current_call
from floodmark.service.closing import ClosedAtExit
from floodmark.service.errors import ConfigError, ServiceError
from floodmark.service.hessian import Encoder, HessianError
from floodmark.service.hints import Hints
from floodmark.service.interface import Interface, interface_of, method
from floodmark.service.provider import Export, Services
from floodmark.service.rows import Rows
from floodmark.service.types import Int
from floodmark.wire.schema import ZERO_UUID

logger = logging.getLogger(__name__)

DEFAULT_MAX_LAG = 10_000
"""The lag in records above which consumers should use another provider."""

MAX_SCAN = 10_000
"""Maximum rows per response. Consumers continue with the last key they got."""

POLL_RECORDS = 2_000


class _Stored(NamedTuple):
    row: bytes
    partition: int
    offset: int


class Table:
    """What to serve: a topic, the dataclass of its rows, and the Java interface."""

    def __init__(
        self,
        topic: str,
        *,
        row: type,
        key: str = "",
        interface: str,
        max_lag: int = DEFAULT_MAX_LAG,
    ) -> None:
        """Values are JSON objects. `key` names the row's field that holds the record's key."""
        if not dataclasses.is_dataclass(row):
            raise ConfigError(f"the rows of table {topic} must be a dataclass, not {row!r}")
        names = {field.name for field in dataclasses.fields(row)}
        if key and key not in names:
            raise ConfigError(f"{row.__name__} has no field {key!r} for the key of {topic}")
        self.topic = topic
        self.row = row
        self.key = key
        self.interface = interface
        self.max_lag = max_lag

    def serve(
        self, bootstrap: str, *, services: Services | None = None, **options: Any
    ) -> ServedTable:
        """Materializes and exports it.

        Takes the options of `Service`. Tables may share `services` and thus a port.
        """
        return ServedTable(self, bootstrap, options, services)


class StoredRows:
    """The last row of each key, encoded, and the topic's read positions."""

    def __init__(self) -> None:
        self.rows: dict[str, _Stored] = {}
        self.keys: list[str] = []
        """Sorted."""
        self._ordered: list[bytes] = []
        """The rows in the order of `keys`: a scan copies a slice of it."""
        self.positions: dict[int, int] = {}
        self.offsets = ""
        """The positions as a call attachment."""

    def put(self, key: str, row: bytes, partition: int, offset: int) -> None:
        place = bisect_left(self.keys, key)
        if key in self.rows:
            self._ordered[place] = row
        else:
            self.keys.insert(place, key)
            self._ordered.insert(place, row)
        self.rows[key] = _Stored(row, partition, offset)

    def remove(self, key: str) -> None:
        if self.rows.pop(key, None) is not None:
            place = bisect_left(self.keys, key)
            del self.keys[place], self._ordered[place]

    def load(self, changes: dict[str, _Stored | None]) -> None:
        """Applies many changes at once, sorting the keys only once."""
        for key, stored in changes.items():
            if stored is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = stored
        self.keys = sorted(self.rows)
        self._ordered = [self.rows[key].row for key in self.keys]

    def clear(self) -> None:
        self.load(dict.fromkeys(self.rows))
        self.positions.clear()
        self.offsets = ""

    def after(self, key: str | None, count: int) -> list[bytes]:
        """This many rows after a key, or from the first."""
        start = 0 if key is None else bisect_right(self.keys, key)
        return self._ordered[start : start + count]

    def has_read(self, partition: int, position: int) -> None:
        self.positions[partition] = position
        self.offsets = ",".join(f"{p}:{offset}" for p, offset in sorted(self.positions.items()))


class TableService:
    """The methods of a table. Their results are already encoded."""

    def __init__(self, topic: str, stored: StoredRows, rows: Rows) -> None:
        self._topic = topic
        self._stored = stored
        self._rows = rows

    @method(inline=True)
    def get(self, key: str) -> Any:
        """The last row of a key, or null."""
        stored = self._stored.rows.get(key)
        attachments = current_call().response_attachments
        attachments["topic"] = self._topic
        if stored is None:
            return None
        attachments["partition"] = str(stored.partition)
        attachments["offset"] = str(stored.offset)
        return self._rows.one(stored.row)

    @method(inline=True)
    def scan(self, after: str | None, limit: Int) -> Any:
        """Rows in ascending key order, after the key `after`, or from the first."""
        stored = self._stored
        attachments = current_call().response_attachments
        attachments["topic"] = self._topic
        attachments["offset"] = stored.offsets
        return self._rows.many(stored.after(after, max(0, min(limit, MAX_SCAN))))

    @method(inline=True)
    def size(self) -> int:
        """How many keys have a row."""
        return len(self._stored.rows)

    @method(inline=True)
    def offset(self, partition: Int) -> int:
        """How far a partition has been read: the first offset not in the table."""
        return self._stored.positions.get(partition, 0)


def table_interface(
    table: Table, service: type[TableService] = TableService
) -> tuple[Interface, Rows]:
    """The interface with the row's class, and the encoder of its rows."""
    interface = interface_of(service, table.interface)
    package = f"{interface.package}." if interface.package else ""
    hints = Hints(interface.classes, package)
    one, many = hints.of(table.row), hints.of(list[table.row])  # type: ignore[name-defined]
    for name, kind in (("get", one), ("scan", many)):
        found = interface.methods[name]
        written = kind._replace(write=Encoder.write)  # the results are already encoded
        interface.methods[name] = found._replace(result=written)
    return interface, Rows(interface.classes, one.write)


class ServedTable(ClosedAtExit):
    """A table while it is served."""

    def __init__(
        self,
        table: Table,
        bootstrap: str,
        options: dict[str, Any],
        services: Services | None = None,
    ) -> None:
        self._table = table
        self._bootstrap = bootstrap
        self._options = options
        self.interface, self._rows = table_interface(table)
        self.stored = StoredRows()
        self._service = TableService(table.topic, self.stored, self._rows)
        self._services = services or Services()
        self._owns_services = services is None
        self._consumer: Consumer | None = None
        self._topic_id = ZERO_UUID
        self._export: Export | None = None
        self._task: asyncio.Task[None] | None = None
        self._withdrawal: asyncio.Task[None] | None = None
        self._caught_up = asyncio.Event()
        self.is_registered = False
        self.broken_rows = 0
        """Records that are not valid rows, and were skipped."""

    async def __aenter__(self) -> ServedTable:
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise
        return self

    async def _start(self) -> None:
        settings = ConsumerSettings(
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            max_poll_records=POLL_RECORDS,
        )
        self._consumer = Consumer(self._bootstrap, settings)
        try:
            await self._consumer.__aenter__()
            partitions = await self._consumer.partitions_of(self._table.topic)
            await self._consumer.assign(partitions)
        except KafkaError as error:
            raise ServiceError(f"topic {self._table.topic} could not be read: {error}") from error
        self._topic_id = self._consumer.cluster.view.topic_id(self._table.topic)
        self._task = asyncio.create_task(self._follow(self._consumer, partitions))
        self._task.add_done_callback(self._follower_ended)
        waiting = asyncio.create_task(self._caught_up.wait())
        await asyncio.wait((self._task, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._task.done():
            await self._task
        self._export = await self._services.export(
            self._service,
            settings_of(TableService, interface=self._table.interface, **self._options),
            self.interface,
        )
        self.is_registered = True

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._owns_services:
            await self._services.close()
        elif self._export is not None:
            await self._export.unexport()
        if self._consumer is not None:
            await self._consumer.close()

    @property
    def export(self) -> Export:
        assert self._export is not None, "the table is not served yet"
        return self._export

    async def _follow(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Reads forever. While a broker is away, the table lags."""
        while True:
            try:
                partitions = await self._follow_topic(consumer, partitions)
                polled = await consumer.poll(500)
            except KafkaError as error:
                logger.warning("table %s cannot continue reading: %s", self._table.topic, error)
                await asyncio.sleep(1.0)
                continue
            self._apply(polled)
            await self._note_lag(partitions)

    async def _follow_topic(
        self, consumer: Consumer, partitions: list[TopicPartition]
    ) -> list[TopicPartition]:
        """Reads added partitions as well, and a recreated topic from its beginning."""
        name = self._table.topic
        known = consumer.cluster.view.topics.get(name)
        if known is None:
            return partitions
        topic_id = consumer.cluster.view.topic_id(name)
        is_another = topic_id not in (ZERO_UUID, self._topic_id)
        if is_another or len(known.partitions) != len(partitions):
            partitions = await consumer.partitions_of(name)
            await consumer.assign(partitions)
        if is_another:
            logger.warning("topic %s was recreated: its table starts over", name)
            self._topic_id = topic_id
            self.stored.clear()
            consumer.seek_to_beginning()
        return partitions

    def _follower_ended(self, task: asyncio.Task[None]) -> None:
        """Withdraws the table, which would otherwise serve outdated rows forever."""
        if task.cancelled() or self._export is None:
            return
        logger.error("table %s is withdrawn: it ended with %r", self._table.topic, task.exception())
        self.is_registered = False
        self._withdrawal = asyncio.create_task(self._export.withdraw())

    def _apply(self, polled: dict[TopicPartition, list[Record]]) -> None:
        for partition, records in polled.items():
            if self._caught_up.is_set():
                for record in records:
                    self._change(partition.partition, record)
            else:
                self.stored.load(self._changes(partition.partition, records))
            if records:
                self.stored.has_read(partition.partition, records[-1].offset + 1)

    def _changes(self, partition: int, records: list[Record]) -> dict[str, _Stored | None]:
        changes: dict[str, _Stored | None] = {}
        for record in records:
            key = _text(record.key)
            row = self._row(key, record.value)
            if row is not None:
                changes[key] = _Stored(row, partition, record.offset)
            elif record.value is None:
                changes[key] = None
        return changes

    def _change(self, partition: int, record: Record) -> None:
        key = _text(record.key)
        if record.value is None:
            self.stored.remove(key)
            return
        row = self._row(key, record.value)
        if row is not None:
            self.stored.put(key, row, partition, record.offset)

    def _row(self, key: str, value: bytes | None) -> bytes | None:
        if value is None:
            return None
        try:
            fields = msgspec.json.decode(value, type=dict[str, Any])
            if self._table.key:
                fields[self._table.key] = key
            # Lax, because a key is text whatever its field's type, and JSON has no dates.
            row = msgspec.convert(fields, self._table.row, strict=False)
            return self._rows.encode(row)
        except (msgspec.DecodeError, HessianError, RecursionError) as error:
            self.broken_rows += 1
            if self.broken_rows.bit_count() == 1:
                logger.warning("a record of %s is not a valid row: %s", self._table.topic, error)
            return None

    async def _note_lag(self, partitions: list[TopicPartition]) -> None:
        assert self._consumer is not None
        lags = [self._consumer.lag(partition) for partition in partitions]
        known = [lag for lag in lags if lag is not None]
        if len(known) == len(lags) and not sum(known):
            self._caught_up.set()
        if self._export is None:
            return
        if self.is_registered and sum(known) > self._table.max_lag:
            logger.warning("table %s lags by %d: withdrawn", self._table.topic, sum(known))
            self.is_registered = False
            await self._export.withdraw()
        elif not self.is_registered and len(known) == len(lags) and not sum(known):
            logger.info("table %s has caught up: registered again", self._table.topic)
            self.is_registered = True
            await self._export.put_back()


def _text(key: bytes | None) -> str:
    return (key or b"").decode("utf-8", "replace")
