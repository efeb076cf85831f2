"""What a handler is given: the parts of the broker it may ask, and who is asking.

`Services` is made once by `broker.broker`; a `RequestContext` once per request by `apis.dispatch`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from floodmark.wire.headers import RequestHeader

if TYPE_CHECKING:
    from floodmark.clock import Clock
    from floodmark.config.broker import BrokerConfig
    from floodmark.controller.service import ControllerService
    from floodmark.metadata.image import MetadataImage
    from floodmark.network.connection import Peer
    from floodmark.replication.fetch_sessions import FetchSessions
    from floodmark.replication.replica_manager import ReplicaManager


@dataclass(slots=True)
class Services:
    """The broker as the APIs see it."""

    broker_id: int
    clock: Clock
    replicas: ReplicaManager
    controller: ControllerService
    fetch_sessions: FetchSessions
    api_versions: Mapping[int, tuple[int, int]]

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    @property
    def config(self) -> BrokerConfig:
        return self.controller.config

    def topic_name(self, topic_id: UUID) -> str | None:
        topic = self.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name


class RequestContext:
    """One request: what it may ask, who sent it, and its header."""

    __slots__ = ("api_version", "header", "peer", "services")

    def __init__(self, services: Services, peer: Peer, header: RequestHeader) -> None:
        self.services = services
        self.peer = peer
        self.header = header
        self.api_version = header.api_version

    @property
    def client_id(self) -> str | None:
        return self.header.client_id

    @property
    def correlation_id(self) -> int:
        return self.header.correlation_id
