"""Administration of a cluster: topics, settings, records, groups, transactions, features.

For users, the CLI and tests. Calls about many things give one result per thing, with its own error;
calls about one thing raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from floodmark.client.admin import (
    acls,
    configs,
    features,
    group_admin,
    quotas,
    reassignments,
    transaction_admin,
    users,
)
from floodmark.client.admin.admin_types import (
    ActiveProducer,
    ClusterDescription,
    ConfigChange,
    ConfigResource,
    CreatedTopic,
    LogDir,
    NewTopic,
    ReplicaSize,
    ResourceConfig,
    ResourceOutcome,
    ResourceType,
    TopicOutcome,
)
from floodmark.client.admin.elections import ElectionType, elect_leaders
from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.connection import Address, Connection
from floodmark.client.cluster.fan_out import ask_leaders, group_by_topic
from floodmark.client.cluster.view import Broker, TopicPartition, TopicView
from floodmark.client.consumer.group_offsets import (
    GroupMetadata,
    OffsetAndMetadata,
    Offsets,
    committed_offsets,
    store_offsets,
)
from floodmark.client.errors import KafkaError, error_of, raise_for_code
from floodmark.client.offsets import ListedOffset, list_offsets
from floodmark.client.settings import ClientSettings
from floodmark.security.acls import Acl, AclFilter
from floodmark.security.quota_entities import QuotaEntity
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from floodmark.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from floodmark.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from floodmark.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from floodmark.wire.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from floodmark.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from floodmark.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from floodmark.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


class Admin:
    """Use it with `async with Admin("127.0.0.1:9092") as admin`."""

    def __init__(
        self, bootstrap: str | Sequence[str] | Cluster, settings: ClientSettings | None = None
    ) -> None:
        self._owns_cluster = not isinstance(bootstrap, Cluster)
        self.cluster = bootstrap if isinstance(bootstrap, Cluster) else Cluster(bootstrap, settings)

    async def __aenter__(self) -> Self:
        await self.cluster.connect()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._owns_cluster:
            await self.cluster.close()

    # --- security ---

    async def create_acls(self, wanted: Sequence[Acl]) -> list[KafkaError | None]:
        """One error, or None, for each ACL."""
        return await acls.create(self.cluster, wanted)

    async def describe_acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        return await acls.describe(self.cluster, wanted or AclFilter())

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """The ACLs that each filter found, which are gone now."""
        return await acls.delete(self.cluster, filters)

    async def describe_client_quotas(
        self, wanted: Mapping[str, str | None] | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """`wanted` names the parts `user`, `client-id` or `ip`: a name, "" for the default, or None
        for any. Strict entities have no other parts."""
        return await quotas.describe(self.cluster, wanted or {}, strict=strict)

    async def alter_client_quotas(
        self,
        entity: QuotaEntity,
        changes: Mapping[str, float | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """None removes a quota."""
        await quotas.alter(self.cluster, entity, changes, validate_only=validate_only)

    # --- topics ---

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> list[CreatedTopic]:
        message = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )

        async def attempt() -> list[CreatedTopic]:
            connection = await self.cluster.controller_connection()
            response: CreateTopicsResponse = await connection.request(message)
            _raise_if_not_controller(answer.error_code for answer in response.topics)
            return [
                CreatedTopic(
                    answer.name,
                    answer.topic_id,
                    answer.num_partitions,
                    answer.replication_factor,
                    error_of(answer.error_code, answer.error_message),
                )
                for answer in response.topics
            ]

        return await self.cluster.retry(attempt)

    async def create_topic(self, topic: NewTopic) -> CreatedTopic:
        (created,) = await self.create_topics([topic])
        if created.error is not None:
            raise created.error
        return created

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicView]:
        view = await self.cluster.retry(self.cluster.refresh_all_topics)
        topics = (view.topics[name] for name in sorted(view.topics))
        return [topic for topic in topics if include_internal or not topic.is_internal]

    async def describe_topics(self, names: Iterable[str]) -> list[TopicView]:
        """Raises UNKNOWN_TOPIC_OR_PARTITION for a name that is not there; creates nothing."""
        known = {topic.name: topic for topic in await self.list_topics(include_internal=True)}
        described: list[TopicView] = []
        for name in names:
            if name not in known:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist"
                )
            described.append(known[name])
        return described

    async def delete_topics(self, names: Iterable[str]) -> list[TopicOutcome]:
        wanted = list(names)

        async def attempt() -> list[TopicOutcome]:
            connection = await self.cluster.controller_connection()
            # Deletion by id or name came with version 6; before there was a plain list of names.
            by_state = connection.version_for(DeleteTopicsRequest) >= 6
            message = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name) for name in wanted] if by_state else [],
                topic_names=[] if by_state else wanted,
                timeout_ms=self._timeout_ms,
            )
            response: DeleteTopicsResponse = await connection.request(message)
            _raise_if_not_controller(answer.error_code for answer in response.responses)
            return [
                TopicOutcome(answer.name or "", error_of(answer.error_code, answer.error_message))
                for answer in response.responses
            ]

        return await self.cluster.retry(attempt)

    async def add_partitions(
        self, totals: Mapping[str, int], *, validate_only: bool = False
    ) -> list[TopicOutcome]:
        """Grow each topic to this number of partitions in all."""
        message = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name=name, count=count, assignments=None)
                for name, count in totals.items()
            ],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )

        async def attempt() -> list[TopicOutcome]:
            connection = await self.cluster.controller_connection()
            response: CreatePartitionsResponse = await connection.request(message)
            _raise_if_not_controller(answer.error_code for answer in response.results)
            return [
                TopicOutcome(answer.name, error_of(answer.error_code, answer.error_message))
                for answer in response.results
            ]

        return await self.cluster.retry(attempt)

    # --- users ---

    async def describe_scram_users(
        self, names: Sequence[str] | None = None
    ) -> list[users.UserDescription]:
        """Which SCRAM credentials these users have, or all users that have one."""
        return await users.describe(self.cluster, names)

    async def set_scram_password(
        self,
        name: str,
        password: str,
        mechanism: str = users.DEFAULT_MECHANISM,
        iterations: int = users.DEFAULT_ITERATIONS,
    ) -> None:
        """Let a user authenticate by this password; the password itself is not sent."""
        await users.alter(
            self.cluster, [users.upsertion(name, password, mechanism, iterations)], []
        )

    async def delete_scram_credentials(self, name: str, mechanisms: Sequence[str]) -> None:
        await users.alter(self.cluster, [], [users.deletion(name, m) for m in mechanisms])

    # --- settings ---

    async def describe_configs(
        self,
        resources: Sequence[ConfigResource],
        *,
        keys: Sequence[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> list[ResourceConfig]:
        return await configs.describe(
            self.cluster,
            resources,
            keys=keys,
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
        )

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> list[ResourceOutcome]:
        return await configs.incremental_alter(self.cluster, changes, validate_only=validate_only)

    async def alter_configs(
        self,
        replacements: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
    ) -> list[ResourceOutcome]:
        """Replace all settings of a resource; prefer `incremental_alter_configs`."""
        return await configs.replace(self.cluster, replacements, validate_only=validate_only)

    async def list_config_resources(
        self, types: Iterable[ResourceType] = ()
    ) -> list[tuple[int, str]]:
        """(resource type, name) of everything that has settings; no types means all of them."""
        message = ListConfigResourcesRequest(resource_types=[int(kind) for kind in types])
        response: ListConfigResourcesResponse = await self.cluster.request(message)
        raise_for_code(response.error_code)
        return [(item.resource_type, item.resource_name) for item in response.config_resources]

    # --- records and offsets ---

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Drop what lies below each offset (-1: below the high watermark); gives the new start
        offset.
        """

        async def ask(
            connection: Connection, share: Mapping[TopicPartition, int]
        ) -> dict[TopicPartition, int | KafkaError]:
            message = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(partition_index=p.partition, offset=share[p])
                            for p in partitions
                        ],
                    )
                    for topic, partitions in group_by_topic(share).items()
                ],
                timeout_ms=self._timeout_ms,
            )
            response: DeleteRecordsResponse = await connection.request(message)
            return {
                TopicPartition(topic.name, p.partition_index): error_of(p.error_code)
                or p.low_watermark
                for topic in response.topics
                for p in topic.partitions
            }

        return await ask_leaders(self.cluster, before, ask)

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        """For each partition the offset of a timestamp in ms or of an `OffsetSpec`."""
        return await list_offsets(self.cluster, wanted, read_committed=read_committed)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
        async def ask(
            connection: Connection, share: Mapping[TopicPartition, None]
        ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
            message = DescribeProducersRequest(
                topics=[
                    TopicRequest(name=topic, partition_indexes=[p.partition for p in group])
                    for topic, group in group_by_topic(share).items()
                ]
            )
            response: DescribeProducersResponse = await connection.request(message)
            return _producers(response)

        return await ask_leaders(self.cluster, dict.fromkeys(partitions), ask)

    # --- groups ---

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[group_admin.GroupListing]:
        """Of all coordinators; no states or types means all of them."""
        return await group_admin.list_groups(self.cluster, states, types)

    async def describe_groups(
        self, group_ids: Iterable[str]
    ) -> dict[str, group_admin.GroupDescription | KafkaError]:
        return await group_admin.describe(self.cluster, group_ids)

    async def delete_groups(self, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
        """Only groups without members can be deleted."""
        return await group_admin.delete(self.cluster, group_ids)

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed, of these partitions or of all."""
        return await committed_offsets(self.cluster, group_id, partitions)

    async def alter_group_offsets(
        self, group_id: str, offsets: Offsets
    ) -> dict[TopicPartition, KafkaError]:
        """Set committed offsets of a group without members; gives what was refused."""
        return await store_offsets(self.cluster, GroupMetadata(group_id), offsets)

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        return await group_admin.delete_offsets(self.cluster, group_id, partitions)

    # --- transactions ---

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[transaction_admin.TransactionListing]:
        return await transaction_admin.list_transactions(
            self.cluster,
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=longer_than_ms,
            pattern=pattern,
        )

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, transaction_admin.TransactionDescription | KafkaError]:
        return await transaction_admin.describe(self.cluster, transactional_ids)

    async def fence_producer(self, transactional_id: str) -> None:
        """Lock out the producer of this transactional id; its open transaction is aborted."""
        await transaction_admin.fence(self.cluster, transactional_id)

    async def abort_hanging_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
    ) -> None:
        """End in one partition a transaction that no coordinator knows of (KIP-664)."""
        await transaction_admin.abort_hanging(
            self.cluster, partition, producer_id, producer_epoch, coordinator_epoch
        )

    # --- the cluster ---

    async def describe_features(self) -> features.Features:
        return await features.describe(self.cluster)

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: features.UpgradeType = features.UpgradeType.UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Move all of these features to their level, or none."""
        await features.update(
            self.cluster, levels, upgrade_type=upgrade_type, validate_only=validate_only
        )

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election_type: ElectionType = ElectionType.PREFERRED,
    ) -> dict[TopicPartition, KafkaError | None]:
        """The outcome for each of these partitions, or for all that needed an election."""
        return await elect_leaders(self.cluster, election_type, partitions)

    async def alter_partition_reassignments(
        self, moves: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Begin to move partitions to these brokers, the preferred leader first; None calls a move
        off. `list_partition_reassignments` tells which moves are not complete yet.

            moves = {TopicPartition("orders", 0): [2, 3], TopicPartition("orders", 1): None}
            await admin.alter_partition_reassignments(moves)
        """
        return await reassignments.alter(self.cluster, moves)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, reassignments.PartitionReassignment]:
        """The moves under way of these partitions, or of all; one that is complete is not there."""
        return await reassignments.under_way(self.cluster, partitions)

    async def describe_cluster(self) -> ClusterDescription:
        response: DescribeClusterResponse = await self.cluster.retry(
            lambda: self.cluster.request(DescribeClusterRequest())
        )
        raise_for_code(response.error_code, response.error_message)
        brokers = [Broker(b.broker_id, Address(b.host, b.port), b.rack) for b in response.brokers]
        return ClusterDescription(response.cluster_id, response.controller_id, brokers)

    async def describe_log_dirs(
        self, node_ids: Iterable[int] | None = None
    ) -> dict[int, list[LogDir]]:
        wanted = list(self.cluster.view.brokers) if node_ids is None else list(node_ids)
        described: dict[int, list[LogDir]] = {}
        for node_id in wanted:
            connection = await self.cluster.connection_to(node_id)
            response: DescribeLogDirsResponse = await connection.request(
                DescribeLogDirsRequest(topics=None)
            )
            raise_for_code(response.error_code)
            described[node_id] = [_log_dir(result) for result in response.results]
        return described

    @property
    def _timeout_ms(self) -> int:
        return int(self.cluster.settings.request_timeout_ms)


def _raise_if_not_controller(codes: Iterable[int]) -> None:
    """The controller moved: the whole request has to go to the new one."""
    if ErrorCode.NOT_CONTROLLER in codes:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(broker_ids))
            for index, broker_ids in topic.assignments.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )


def _log_dir(result: DescribeLogDirsResult) -> LogDir:
    return LogDir(
        result.log_dir,
        [
            ReplicaSize(
                TopicPartition(topic.name, p.partition_index),
                p.partition_size,
                p.offset_lag,
                p.is_future_key,
            )
            for topic in result.topics
            for p in topic.partitions
        ],
        result.total_bytes,
        result.usable_bytes,
        error_of(result.error_code),
    )


def _producers(
    response: DescribeProducersResponse,
) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
    results: dict[TopicPartition, list[ActiveProducer] | KafkaError] = {}
    for topic in response.topics:
        for answer in topic.partitions:
            error = error_of(answer.error_code, answer.error_message)
            results[TopicPartition(topic.name, answer.partition_index)] = error or [
                ActiveProducer(
                    p.producer_id,
                    p.producer_epoch,
                    p.last_sequence,
                    p.last_timestamp,
                    p.coordinator_epoch,
                    p.current_txn_start_offset,
                )
                for p in answer.active_producers
            ]
    return results
