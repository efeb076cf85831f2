"""Pending markers for one other broker. Owned by `transactions.markers`."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from floodmark.coordinators.transactions.broker_channel import BrokerChannel
from floodmark.coordinators.transactions.ports import Cluster, Marker
from floodmark.promise import Promise
from floodmark.vocabulary import TopicPartition
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

logger = logging.getLogger(__name__)

LEADERS_CHECK_S: Final = 1.0
"""How often to look whether the markers under way still have this leader."""

_Waiting = dict[TopicPartition, Promise[ErrorCode]]


class MarkerChannel(BrokerChannel):
    def __init__(self, broker_id: int, cluster: Cluster) -> None:
        super().__init__(broker_id, cluster)
        self._queue: dict[Marker, _Waiting] = {}

    def send(self, marker: Marker, topic: str, partition: int) -> Promise[ErrorCode]:
        written: Promise[ErrorCode] = Promise()
        self._queue.setdefault(marker, {})[topic, partition] = written
        self._start()
        return written

    def _is_queue_empty(self) -> bool:
        return not self._queue

    async def _send_queued(self) -> None:
        batch, self._queue = self._queue, {}
        error_codes: dict[tuple[int, str, int], int] = {}
        if not self._is_led_here(batch):
            return
        request = asyncio.ensure_future(self._cluster.request(self._broker_id, _request(batch)))
        try:
            while not request.done():
                await asyncio.wait({request}, timeout=LEADERS_CHECK_S)
                if not request.done() and not self._is_led_here(batch):
                    return
            error_codes = _error_codes(request.result())
        except OSError as problem:
            logger.info("markers for broker %d: %s", self._broker_id, problem)
        except Exception:
            logger.exception("bug in the markers for broker %d; they are retried", self._broker_id)
        finally:
            request.cancel()
        for marker, waiting in batch.items():
            for (topic, partition), written in waiting.items():
                code = error_codes.get((marker.producer_id, topic, partition))
                written.set(ErrorCode.NETWORK_EXCEPTION if code is None else ErrorCode.of(code))

    def _is_led_here(self, batch: dict[Marker, _Waiting]) -> bool:
        """Gives back the markers of partitions that have moved. Returns whether any are left.

        A paused broker answers nothing until its requests time out, but others lead by then.
        """
        is_any_left = False
        for waiting in batch.values():
            for (topic, partition), written in waiting.items():
                if self._cluster.leader_of(topic, partition) == self._broker_id:
                    is_any_left = True
                else:
                    written.set(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return is_any_left


def _request(batch: dict[Marker, _Waiting]) -> WriteTxnMarkersRequest:
    markers = []
    for marker, waiting in batch.items():
        topics: dict[str, list[int]] = {}
        for topic, partition in waiting:
            topics.setdefault(topic, []).append(partition)
        markers.append(
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.committed,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=partitions)
                    for name, partitions in topics.items()
                ],
            )
        )
    return WriteTxnMarkersRequest(markers=markers)


def _error_codes(response: WriteTxnMarkersResponse) -> dict[tuple[int, str, int], int]:
    return {
        (marker.producer_id, topic.name, partition.partition_index): partition.error_code
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
