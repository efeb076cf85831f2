"""A simulated broker: the real replica manager and log manager on an in-memory disk.

It has no network: requests arrive as messages, and responses go to `outbox`, which a crash in
mid-step loses. `leading.py` and `following.py` handle the messages.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from floodmark.metadata.image import BrokerInfo, PartitionImage
from floodmark.metadata.store import StoreUnavailable
from floodmark.records.validation import ProduceRules
from floodmark.replication.control_fence import ControlFence
from floodmark.replication.partition import Leadership, Partition
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.errors import DiskFull, StorageError
from floodmark.storage.log_manager import LogManager
from floodmark.storage.retention import segments_due
from floodmark.testing.crashing_files import CrashingFiles, CrashNow
from floodmark.testing.simulation import controller
from floodmark.testing.simulation.background import SimulatedBackground
from floodmark.testing.simulation.controller import Resigned, SimulatedController
from floodmark.testing.simulation.following import Following
from floodmark.testing.simulation.leading import Acknowledged, Leading
from floodmark.testing.simulation.messages import (
    AlterPartition,
    AlterPartitionAnswer,
    ConsumerFetch,
    LeaderAndIsr,
    Message,
    Payload,
    Produce,
    ReplicaFetch,
    ReplicaFetchAnswer,
    ReplicaOffsets,
    ReplicaOffsetsAnswer,
    StopReplica,
    UpdateMetadata,
    WriteMarker,
)
from floodmark.testing.simulation.plan import Plan
from floodmark.testing.simulation.store import SimulatedStore
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.vocabulary import TopicPartition
from floodmark.wire.errors import ErrorCode

LOG_DIR = Path("/logs")
NO_SESSION = 0
_RULES = ProduceRules()


class SimulatedBroker:
    def __init__(
        self, broker_id: int, clock: VirtualClock, plan: Plan, store: SimulatedStore
    ) -> None:
        self.id = broker_id
        self.clock = clock
        self.plan = plan
        self.store = store
        self.files = CrashingFiles()
        self.outbox: list[Message] = []
        self.acknowledged: list[Acknowledged] = []
        # The epochs of the controllers it obeyed in this step.
        self.obeyed: list[int] = []
        self.incarnation = 0
        self.session = NO_SESSION
        self.is_running = False
        self.is_paused = False
        self.unbroken_since = -1
        # Its own controller role, if it has one, and the broker it considers the controller.
        self.controller: SimulatedController | None = None
        self.known_controller = 0
        # A power loss destroyed unsynced data. The invariants ignore this disk until a controller
        # has noticed and removed the replica from the in-sync set.
        self.lost_data_in: set[TopicPartition] = set()
        self.lost_data_in_epoch = -1
        # Partitions this broker has ever opened: each starts empty only once.
        self._ever_opened: set[TopicPartition] = set()
        # Leader epoch and partition epoch of each partition it was told about.
        self._known_epochs: dict[TopicPartition, tuple[int, int]] = {}
        self.fence = ControlFence()

    # Lifecycle

    def start(self) -> None:
        self.incarnation += 1
        # Free some space: a broker cannot recover its logs on a full disk.
        self.files.faults.space_bytes = None
        self.fence = ControlFence()
        self._known_epochs = {}
        self.session = NO_SESSION
        self.controller = None
        self.is_paused = False
        self.background = SimulatedBackground(self.clock)
        self.manager = LogManager(self.files, [LOG_DIR], recovery_threads=1)
        self.manager.open_dirs()
        log_dir = self.manager.dirs[LOG_DIR]
        self.unbroken_since = log_dir.broker_epoch if log_dir.clean else -1
        self.replicas = ReplicaManager(self.clock, self.background, self._disk_failed)
        self.leading = Leading(self)
        self.following = Following(self)
        self.is_running = True
        for found in self.manager.found_partitions():
            self._open((found.topic, found.partition))

    def _open(self, key: TopicPartition) -> Replica:
        """Like `broker.partitions`: recovers an existing log instead of creating one."""
        topic = self.plan.topic(key[0])
        log = self.manager.get_or_create(
            *key,
            topic.topic_id,
            topic.log_config(),
            now_ms=self.clock.now_ms(),
            is_new=key not in self._ever_opened,
        )
        self._ever_opened.add(key)
        checkpointed = self.manager.high_watermarks.get(key, 0)
        core = Partition(
            self.id,
            log_end_offset=log.log_end_offset,
            high_watermark=max(checkpointed, log.log_start_offset),
        )
        replica = Replica(core, log, topic.topic_id, _RULES, topic.min_in_sync_replicas)
        self.replicas.add(replica)
        return replica

    def stop(self) -> None:
        """A clean stop: syncs everything and marks it as clean, if the disk has space."""
        with suppress(DiskFull):
            self.checkpoint()
        self.manager.close(self.clock.now_ms(), broker_epoch=self.unbroken_since)
        self.store.end_session(self.session)
        self._end()

    def kill(self) -> None:
        """kill -9: the process is gone, but its writes are in the page cache."""
        self._end()

    def lose_power(self, random: Random) -> None:
        self.files = self.files.crash(random)
        self.lost_data_in |= {
            key
            for topic in self.plan.topics
            for key in topic.keys
            if self.replicas.find(key) is not None and not topic.is_synced
        }
        # It may lose power again before it has registered: then its last registration counts.
        self.lost_data_in_epoch = max(self.lost_data_in_epoch, self.fence.broker_epoch)
        self._end()

    def _end(self) -> None:
        self.is_running = False
        self.controller = None
        self.files.process_ended()
        self.outbox.clear()
        self.acknowledged.clear()
        self.obeyed.clear()

    def _disk_failed(self, replica: Replica, problem: StorageError | OSError) -> None:
        """A broker exits without its only log folder."""
        raise CrashNow

    # Sessions and the controller role

    @property
    def has_session(self) -> bool:
        return self.session in self.store.sessions

    def register(self) -> None:
        """Opens a session and takes a broker epoch.

        A process that kept running has lost nothing, as after a clean stop.
        """
        self.session = self.store.begin_session(self.id)
        info = BrokerInfo(self.id, -1, {}, unbroken_since=self.unbroken_since)
        self.fence.broker_epoch = self.store.register(info, self.session)
        if self.unbroken_since < 0:
            self.unbroken_since = self.fence.broker_epoch

    def stand_for_election(self) -> bool:
        """Becomes the controller if there is none."""
        try:
            self.controller = controller.elect(
                self.store, self.id, self.session, self.clock.now_ms(), self.send
            )
        except Resigned:
            return False
        self.as_controller(lambda role: role.take_over())
        return True

    def as_controller(self, do: Callable[[SimulatedController], None]) -> None:
        """Runs an action in the controller role.

        The role ends if another controller was elected.
        """
        if self.controller is None:
            return
        # After a lost response, its next action starts by reading the store.
        with suppress(StoreUnavailable):
            try:
                do(self.controller)
            except Resigned:
                self.controller = None

    # Messages

    def send(self, target: int, payload: Payload) -> None:
        self.outbox.append(Message(self.id, target, payload))

    def receive(self, source: int, payload: Payload) -> None:
        match payload:
            case LeaderAndIsr():
                self._lead_or_follow(payload)
            case StopReplica():
                if self._obeys(payload):
                    self._remove(payload.key, payload.partition)
            case UpdateMetadata():
                if self._obeys(payload):
                    self.known_controller = source
            case AlterPartition():
                self._alter_partition(source, payload)
            case AlterPartitionAnswer():
                self.leading.isr_answered(payload)
            case ReplicaFetch():
                self.leading.serve_follower(source, payload)
            case ReplicaOffsets():
                self.leading.tell_offsets(source, payload)
            case ReplicaFetchAnswer():
                self.following.fetched(source, payload)
            case ReplicaOffsetsAnswer():
                self.following.offsets_found(payload)
            case Produce():
                self.leading.append(source, payload)
            case WriteMarker():
                self.leading.write_marker(source, payload)
            case ConsumerFetch():
                self.leading.serve_consumer(source, payload)
            case _:
                raise TypeError(f"not a message for a broker: {payload}")

    def _lead_or_follow(self, told: LeaderAndIsr) -> None:
        if self._obeys(told):
            for key, partition in told.partitions:
                self.apply(key, partition)

    def _obeys(self, told: LeaderAndIsr | StopReplica | UpdateMetadata) -> bool:
        obeys = self.fence.check(told.controller_epoch, told.broker_epoch) is ErrorCode.NONE
        if obeys:
            self.obeyed.append(told.controller_epoch)
        return obeys

    def apply(self, key: TopicPartition, partition: PartitionImage) -> None:
        if not self._is_news(key, partition):
            return
        replica = self.replicas.find(key) or self._open(key)
        self.replicas.lead_or_follow(replica, Leadership.of(partition))

    def _remove(self, key: TopicPartition, partition: PartitionImage) -> None:
        replica = self.replicas.find(key)
        if self._is_news(key, partition) and replica is not None:
            self.replicas.remove(key)
            self.manager.remove_folder(self.manager.delete(*key))
            self._ever_opened.discard(key)

    def _is_news(self, key: TopicPartition, partition: PartitionImage) -> bool:
        """Works like the image: older states are ignored, also of partitions that moved away."""
        epochs = (partition.leader_epoch, partition.partition_epoch)
        if epochs < self._known_epochs.get(key, epochs):
            return False
        self._known_epochs[key] = epochs
        return True

    def _alter_partition(self, source: int, request: AlterPartition) -> None:
        if self.controller is None:
            refused = AlterPartitionAnswer(
                request.key, request.proposal, ErrorCode.NOT_CONTROLLER, None
            )
            self.send(source, refused)
        else:
            self.as_controller(lambda role: role.alter_partition(source, request))

    # Housekeeping

    def tick(self) -> None:
        self.background.tick()

    def flush(self) -> None:
        for replica in self.replicas.replicas:
            replica.log.fsync(self.clock.now_ms())
        self.manager.checkpoint_recovery_points()

    def checkpoint(self) -> None:
        self.manager.checkpoint_high_watermarks(
            {replica.key: replica.core.high_watermark for replica in self.replicas.replicas}
        )
        self.manager.checkpoint_log_start_offsets()

    def retain(self) -> None:
        now_ms = self.clock.now_ms()
        for replica in self.replicas.replicas:
            count = segments_due(replica.log, now_ms, replica.core.high_watermark)
            if count:
                segments = replica.log.detach_oldest(count, now_ms)
                self.manager.retire(replica.log, segments).remove()
                self.replicas.changed(replica.key)
