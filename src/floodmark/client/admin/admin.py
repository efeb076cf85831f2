"""Cluster administration: topics, settings, records, groups, transactions, features.

For users, the CLI and tests. Batch calls return one result per item, each with its own error.
Calls for a single item raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from floodmark.client.admin import (
    acls,
    brokers,
    configs,
    features,
    group_admin,
    partition_admin,
    quotas,
    reassignments,
    tokens,
    topic_admin,
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
    ResourceConfig,
    ResourceOutcome,
    TopicOutcome,
)
from floodmark.client.admin.elections import elect_leaders
from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition, TopicView
from floodmark.client.consumer.group_offsets import (
    GroupMetadata,
    OffsetAndMetadata,
    Offsets,
    committed_offsets,
    store_offsets,
)
from floodmark.client.errors import KafkaError, UnknownTopic
from floodmark.client.offsets import ListedOffset, list_offsets
from floodmark.client.settings import ClientSettings
from floodmark.security.acls import Acl, AclFilter
from floodmark.security.quota_entities import QuotaEntity
from floodmark.wire.numbers import ElectionType, ResourceType, UpgradeType


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
        """Closes the connections, unless they belong to a `Cluster` that was passed in."""
        if self._owns_cluster:
            await self.cluster.close()

    # --- security ---

    async def create_acls(self, wanted: Sequence[Acl]) -> list[KafkaError | None]:
        """Returns an error or None for each ACL."""
        return await acls.create(self.cluster, wanted)

    async def describe_acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """The ACLs that match a filter. By default all."""
        return await acls.describe(self.cluster, wanted or AclFilter())

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Returns the deleted ACLs per filter."""
        return await acls.delete(self.cluster, filters)

    async def describe_client_quotas(
        self, wanted: Mapping[str, str | None] | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """`wanted` maps `user`, `client-id` or `ip` to a name, "" for the default, or None for any.

        With `strict`, matches only entities without other parts.
        """
        return await quotas.describe(self.cluster, wanted or {}, strict=strict)

    async def alter_client_quotas(
        self,
        entity: QuotaEntity,
        changes: Mapping[str, float | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """A value of None removes a quota."""
        await quotas.alter(self.cluster, entity, changes, validate_only=validate_only)

    # --- topics ---

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> list[CreatedTopic]:
        """Creates topics. Returns the outcome of each, in the order given."""
        return await topic_admin.create(self.cluster, topics, validate_only=validate_only)

    async def create_topic(self, topic: NewTopic) -> CreatedTopic:
        """Creates a topic. Raises KafkaError if the broker refuses it."""
        (created,) = await self.create_topics([topic])
        if created.error is not None:
            raise created.error
        return created

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicView]:
        """The topics of the cluster, by name."""
        view = await self.cluster.retry(self.cluster.refresh_all_topics)
        topics = (view.topics[name] for name in sorted(view.topics))
        return [topic for topic in topics if include_internal or not topic.is_internal]

    async def describe_topics(self, names: Iterable[str]) -> list[TopicView]:
        """Raises UnknownTopic for a name that is not there; creates nothing."""
        known = {topic.name: topic for topic in await self.list_topics(include_internal=True)}
        described: list[TopicView] = []
        for name in names:
            if name not in known:
                raise UnknownTopic(name)
            described.append(known[name])
        return described

    async def delete_topics(self, names: Iterable[str]) -> list[TopicOutcome]:
        """Deletes topics. Returns the outcome of each, in the order given."""
        return await topic_admin.delete(self.cluster, names)

    async def add_partitions(
        self, totals: Mapping[str, int], *, validate_only: bool = False
    ) -> list[TopicOutcome]:
        """Grow each topic to this number of partitions in all."""
        return await topic_admin.add_partitions(self.cluster, totals, validate_only=validate_only)

    # --- users ---

    async def describe_scram_users(
        self, names: Sequence[str] | None = None
    ) -> list[users.UserDescription]:
        """The SCRAM credentials of these users, or of all users that have any."""
        return await users.describe(self.cluster, names)

    async def set_scram_password(
        self,
        name: str,
        password: str,
        mechanism: str = users.DEFAULT_MECHANISM,
        iterations: int = users.DEFAULT_ITERATIONS,
    ) -> None:
        """Lets a user authenticate with this password. The password itself is not sent."""
        await users.alter(
            self.cluster, [users.upsertion(name, password, mechanism, iterations)], []
        )

    async def delete_scram_credentials(self, name: str, mechanisms: Sequence[str]) -> None:
        """Deletes a user's SCRAM credentials. Raises KafkaError if the broker refuses it."""
        await users.alter(self.cluster, [], [users.deletion(name, m) for m in mechanisms])

    # --- delegation tokens ---

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Sequence[str] = (),
        max_lifetime_ms: int = -1,
    ) -> tokens.TokenDescription:
        """A token for this client, or for another owner; principals as `User:alice`. A negative
        lifetime leaves it to the broker."""
        return await tokens.create(self.cluster, owner, renewers, max_lifetime_ms)

    async def renew_delegation_token(self, hmac: bytes, period_ms: int = -1) -> int:
        """Until when it is valid now. A negative period leaves it to the broker."""
        return await tokens.renew(self.cluster, hmac, period_ms)

    async def expire_delegation_token(self, hmac: bytes, period_ms: int = -1) -> int:
        """Until when it is valid now. A negative period ends it at once."""
        return await tokens.expire(self.cluster, hmac, period_ms)

    async def describe_delegation_tokens(
        self, owners: Sequence[str] | None = None
    ) -> list[tokens.TokenDescription]:
        """The tokens of these owners, or all that this client may see."""
        return await tokens.describe(self.cluster, owners)

    # --- settings ---

    async def describe_configs(
        self,
        resources: Sequence[ConfigResource],
        *,
        keys: Sequence[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> list[ResourceConfig]:
        """The settings of resources, with their sources and defaults."""
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
        """Changes single settings and leaves the others as they are."""
        return await configs.incremental_alter(self.cluster, changes, validate_only=validate_only)

    async def alter_configs(
        self,
        replacements: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
    ) -> list[ResourceOutcome]:
        """Replaces all settings of a resource. Prefer `incremental_alter_configs`."""
        return await configs.replace(self.cluster, replacements, validate_only=validate_only)

    async def list_config_resources(
        self, types: Iterable[ResourceType] = ()
    ) -> list[tuple[int, str]]:
        """(resource type, name) of everything that has settings; no types means all of them."""
        return await configs.list_resources(self.cluster, types)

    # --- records and offsets ---

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Deletes the records below each offset (-1: below the high watermark).

        Returns the new start offset of each partition.
        """
        return await partition_admin.delete_records(self.cluster, before)

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        """The offset for a timestamp in ms or an `OffsetSpec`, per partition."""
        return await list_offsets(self.cluster, wanted, read_committed=read_committed)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
        """The active producers of partitions."""
        return await partition_admin.describe_producers(self.cluster, partitions)

    # --- groups ---

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[group_admin.GroupListing]:
        """Lists the groups of all coordinators. No states or types means all."""
        return await group_admin.list_groups(self.cluster, states, types)

    async def describe_groups(
        self, group_ids: Iterable[str]
    ) -> dict[str, group_admin.GroupDescription | KafkaError]:
        """State, members and assignments of consumer groups."""
        return await group_admin.describe(self.cluster, group_ids)

    async def delete_groups(self, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
        """Only groups without members can be deleted."""
        return await group_admin.delete(self.cluster, group_ids)

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets, for these partitions or for all."""
        return await committed_offsets(self.cluster, group_id, partitions)

    async def alter_group_offsets(
        self, group_id: str, offsets: Offsets
    ) -> dict[TopicPartition, KafkaError]:
        """Sets committed offsets of a group without members. Returns the refused ones."""
        return await store_offsets(self.cluster, GroupMetadata(group_id), offsets)

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Deletes a group's committed offsets of these partitions."""
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
        """Transactions of all coordinators, optionally filtered."""
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
        """State, producer and partitions of transactions."""
        return await transaction_admin.describe(self.cluster, transactional_ids)

    async def fence_producer(self, transactional_id: str) -> None:
        """Fences the producer of this transactional id and aborts its open transaction."""
        await transaction_admin.fence(self.cluster, transactional_id)

    async def abort_hanging_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
    ) -> None:
        """Aborts a transaction that no coordinator knows, in one partition (KIP-664)."""
        await transaction_admin.abort_hanging(
            self.cluster, partition, producer_id, producer_epoch, coordinator_epoch
        )

    # --- the cluster ---

    async def describe_features(self) -> features.Features:
        """The feature levels that brokers support and that are finalized."""
        return await features.describe(self.cluster)

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = UpgradeType.UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Changes all of these features to their levels, or none."""
        await features.update(
            self.cluster, levels, upgrade_type=upgrade_type, validate_only=validate_only
        )

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election_type: ElectionType = ElectionType.PREFERRED,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Returns the outcome for these partitions, or for all that needed an election."""
        return await elect_leaders(self.cluster, election_type, partitions)

    async def alter_partition_reassignments(
        self, moves: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Starts moving partitions to these brokers, preferred leader first. None cancels a move.

        `list_partition_reassignments` shows the moves that are still in progress.

            moves = {TopicPartition("orders", 0): [2, 3], TopicPartition("orders", 1): None}
            await admin.alter_partition_reassignments(moves)
        """
        return await reassignments.alter(self.cluster, moves)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, reassignments.PartitionReassignment]:
        """The moves in progress, for these partitions or for all. Completed moves are absent."""
        return await reassignments.under_way(self.cluster, partitions)

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster id, the controller and the brokers."""
        return await brokers.describe_cluster(self.cluster)

    async def describe_log_dirs(
        self, node_ids: Iterable[int] | None = None
    ) -> dict[int, list[LogDir]]:
        """The log folders of these brokers (by default all), with sizes and partitions."""
        return await brokers.describe_log_dirs(self.cluster, node_ids)
