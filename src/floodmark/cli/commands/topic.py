"""`floodmark topic ...`: create, list, describe, alter, delete, add partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from floodmark.cli.cluster_health import is_under_replicated
from floodmark.cli.errors import CliError, fail_with
from floodmark.cli.help import Group
from floodmark.cli.options import F, names_option, output_option, pairs, require
from floodmark.cli.output import JSON, Document, print_json, print_table
from floodmark.cli.session import admin_option, failure, no_such_topic, run_client
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import (
    ConfigChange,
    ConfigResource,
    CreatedTopic,
    NewTopic,
    TopicOutcome,
)
from floodmark.client.cluster.view import TopicPartition, TopicView
from floodmark.client.errors import KafkaError
from floodmark.client.offsets import OffsetSpec
from floodmark.vocabulary import NO_LEADER
from floodmark.wire.errors import ErrorCode
from floodmark.wire.numbers import ConfigOperation, ConfigSource


@click.group(
    cls=Group,
    examples=[
        "floodmark topic create orders -p 6 -c retention.ms=86400000",
        "floodmark topic list",
        "floodmark topic describe orders",
    ],
)
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


topic_names = names_option("TOPIC", "--topic", separator=",")


def config_option(help_text: str) -> Callable[[F], F]:
    """Accepts Kafka's option name and rpk's."""
    return click.option(
        "--config",
        "--topic-config",
        "-c",
        "configs",
        multiple=True,
        metavar="NAME=VALUE",
        help=help_text,
    )


@topic.command(
    examples=[
        "floodmark topic create orders",
        "floodmark topic create orders payments -p 6 -r 1 -c cleanup.policy=compact",
        "floodmark topic create orders --partitions 6 --if-not-exists",
        "floodmark topic create orders --replica-assignment 1,1,1",
    ]
)
@topic_names
@click.option("--partitions", "-p", type=int, default=-1, help="Number of partitions.")
@click.option(
    "--replication-factor",
    "--replicas",
    "-r",
    "replication_factor",
    type=int,
    default=-1,
    help="Replicas of each partition.",
)
@click.option(
    "--replica-assignment", help="Brokers of each partition: 1:2,2:3 makes two partitions."
)
@config_option("Topic setting, such as retention.ms=86400000.")
@click.option("--if-not-exists", is_flag=True, help="Ignore existing topics.")
@click.option("--validate-only", is_flag=True, help="Validate without applying.")
@output_option
@admin_option
def create(
    names: list[str],
    partitions: int,
    replication_factor: int,
    replica_assignment: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
    output: str,
    admin: Admin,
) -> None:
    """Create topics. Omitted numbers use the broker's defaults."""
    require(names, "topic")
    assignments = _parse_assignment(replica_assignment)
    if assignments and (partitions != -1 or replication_factor != -1):
        raise click.UsageError(
            "--replica-assignment already sets the number of partitions and replicas"
        )
    wanted = [
        NewTopic(name, partitions, replication_factor, assignments, pairs(configs))
        for name in names
    ]

    async def work() -> list[CreatedTopic]:
        async with admin:
            return await admin.create_topics(wanted, validate_only=validate_only)

    created = run_client(work())
    verb = "can be created" if validate_only else "created"
    exists = ErrorCode.TOPIC_ALREADY_EXISTS if if_not_exists else None
    ignored = [t for t in created if t.error is not None and t.error.code == exists]
    _report(
        output,
        [t for t in created if t not in ignored],
        done=lambda t: f"topic {t.name} {verb} with {_count(t.partitions, 'partition')}",
        failed=lambda name: f"topic {name} was not created",
    )


@topic.command(
    "list", examples=["floodmark topic list", "floodmark topic list --exclude-internal -o json"]
)
@click.option("--exclude-internal", is_flag=True, help="Hide internal topics.")
@output_option
@admin_option
def list_topics(exclude_internal: bool, output: str, admin: Admin) -> None:
    """List topics."""

    async def work() -> list[TopicView]:
        async with admin:
            return await admin.list_topics(include_internal=not exclude_internal)

    topics = run_client(work())
    if output == JSON:
        print_json([_topic_json(item) for item in topics])
    elif topics:
        rows = [(t.name, len(t.partitions), _replication_factor(t)) for t in topics]
        print_table(("TOPIC", "PARTITIONS", "REPLICAS"), rows)
    else:
        _say_there_are_none()


@topic.command(
    examples=[
        "floodmark topic describe orders",
        "floodmark topic describe --under-replicated",
        "floodmark topic describe --unavailable-partitions",
        "floodmark topic describe orders payments -o json",
    ]
)
@topic_names
@click.option(
    "--under-replicated-partitions",
    "--under-replicated",
    is_flag=True,
    help="Show only under-replicated partitions.",
)
@click.option("--unavailable-partitions", is_flag=True, help="Show only leaderless ones.")
@output_option
@admin_option
def describe(
    names: list[str],
    under_replicated_partitions: bool,
    unavailable_partitions: bool,
    output: str,
    admin: Admin,
) -> None:
    """Show partitions, leaders, replicas, offsets and changed settings. Default: all topics."""

    async def work() -> tuple[list[Document], list[CliError]]:
        async with admin:
            known = {item.name: item for item in await admin.list_topics(include_internal=True)}
            wanted = names or list(known)
            found = [known[name] for name in wanted if name in known]
            missing = [no_such_topic(name, known) for name in wanted if name not in known]
            return await _describe(admin, found), missing

    def is_shown(partition: Document) -> bool:
        behind = partition["under_replicated"]
        leaderless = partition["leader"] is None
        if not under_replicated_partitions and not unavailable_partitions:
            return True
        return (under_replicated_partitions and behind) or (unavailable_partitions and leaderless)

    described, missing = run_client(work())
    for item in described:
        item["partitions"] = [p for p in item["partitions"] if is_shown(p)]
    is_filtered = under_replicated_partitions or unavailable_partitions
    has_topics = bool(described)
    if is_filtered:
        described = [item for item in described if item["partitions"]]
    if output == JSON:
        print_json(described)
    else:
        for item in described:
            _print_description(item)
        if not described and not missing:
            _say_there_are_none(is_filtered and has_topics)
    fail_with(missing)


@topic.command(
    examples=[
        "floodmark topic alter orders -c retention.ms=3600000",
        "floodmark topic alter orders --delete-config retention.ms -p 12",
    ]
)
@topic_names
@click.option("--partitions", "-p", type=int, help="New number of partitions.")
@config_option("Change a setting.")
@click.option("--delete-config", multiple=True, metavar="NAME", help="Reset a setting.")
@output_option
@admin_option
def alter(
    names: list[str],
    partitions: int | None,
    configs: tuple[str, ...],
    delete_config: tuple[str, ...],
    output: str,
    admin: Admin,
) -> None:
    """Change the settings of topics or their number of partitions."""
    require(names, "topic")
    changes = [ConfigChange(name, value) for name, value in pairs(configs).items()]
    changes += [ConfigChange(name, None, ConfigOperation.DELETE) for name in delete_config]
    if not changes and partitions is None:
        raise click.UsageError("name a change: --config, --delete-config or --partitions")

    async def work() -> list[TopicOutcome]:
        outcomes = {name: TopicOutcome(name) for name in names}
        async with admin:
            if changes:
                resources = {ConfigResource.topic(name): changes for name in names}
                for altered in await admin.incremental_alter_configs(resources):
                    name = altered.resource.name
                    outcomes[name] = TopicOutcome(name, altered.error)
            to_grow = [name for name, outcome in outcomes.items() if outcome.error is None]
            if partitions is not None and to_grow:
                grown = await admin.add_partitions(dict.fromkeys(to_grow, partitions))
                outcomes.update((outcome.name, outcome) for outcome in grown)
        return list(outcomes.values())

    _report(
        output,
        run_client(work()),
        done=lambda outcome: f"topic {outcome.name} altered",
        failed=lambda name: f"topic {name} was not altered",
    )


@topic.command("add-partitions", examples=["floodmark topic add-partitions orders -p 12"])
@topic_names
@click.option("--partitions", "-p", type=int, required=True, help="New total.")
@output_option
@admin_option
def add_partitions(
    names: list[str],
    partitions: int,
    output: str,
    admin: Admin,
) -> None:
    """Increase the number of partitions. It can never decrease."""
    require(names, "topic")

    async def work() -> list[TopicOutcome]:
        async with admin:
            return await admin.add_partitions(dict.fromkeys(names, partitions))

    _report(
        output,
        run_client(work()),
        done=lambda outcome: f"topic {outcome.name} now has {_count(partitions, 'partition')}",
        failed=lambda name: f"topic {name} was not changed",
    )


@topic.command(
    examples=["floodmark topic delete orders", "floodmark topic delete orders --if-exists"]
)
@topic_names
@click.option("--if-exists", is_flag=True, help="Ignore missing topics.")
@output_option
@admin_option
def delete(
    names: list[str],
    if_exists: bool,
    output: str,
    admin: Admin,
) -> None:
    """Delete topics and all their records."""
    require(names, "topic")

    async def work() -> list[TopicOutcome]:
        async with admin:
            return await admin.delete_topics(names)

    outcomes = run_client(work())
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if if_exists else None
    _report(
        output,
        [o for o in outcomes if o.error is None or o.error.code != missing],
        done=lambda outcome: f"topic {outcome.name} deleted",
        failed=lambda name: f"topic {name} was not deleted",
    )


# --- helpers ---


def _say_there_are_none(has_topics: bool = False) -> None:
    """`has_topics` says that there are, but none with such partitions."""
    if has_topics:
        click.echo("there are no such partitions", err=True)
    else:
        click.echo("there are no topics: create one with `floodmark topic create NAME`", err=True)


def _report(output: str, outcomes: Sequence[Any], *, done: Any, failed: Any) -> None:
    """Reports successes, then failures."""
    errors = [outcome for outcome in outcomes if outcome.error is not None]
    if output == JSON:
        print_json(
            [
                {"topic": o.name, "error": o.error.code.name if o.error else None}
                for o in sorted(outcomes, key=lambda outcome: str(outcome.name))
            ]
        )
    else:
        for outcome in outcomes:
            if outcome.error is None:
                click.echo(done(outcome))
    fail_with([failure(outcome.error, failed(outcome.name)) for outcome in errors])


def _parse_assignment(text: str | None) -> dict[int, list[int]]:
    if text is None:
        return {}
    try:
        return {
            index: [int(broker) for broker in replicas.split(":")]
            for index, replicas in enumerate(text.split(","))
        }
    except ValueError:
        raise click.UsageError(
            f"'{text}' is not a replica assignment: write broker ids as 1:2,2:3"
        ) from None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _replication_factor(item: TopicView) -> int:
    return max((len(p.replicas) for p in item.partitions.values()), default=0)


def _topic_json(item: TopicView) -> Document:
    return {
        "topic": item.name,
        "topic_id": str(item.topic_id),
        "internal": item.is_internal,
        "partitions": len(item.partitions),
        "replication_factor": _replication_factor(item),
    }


async def _describe(admin: Admin, topics: Sequence[TopicView]) -> list[Document]:
    """Needs only a few requests, however many topics there are."""
    if not topics:
        return []
    configs: dict[str, dict[str, str | None]] = {}
    for config in await admin.describe_configs([ConfigResource.topic(t.name) for t in topics]):
        name = config.resource.name
        if config.error is not None:
            raise CliError(f"the settings of {name} could not be read", why=str(config.error))
        configs[name] = {
            entry.name: entry.value
            for entry in config.entries.values()
            if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
        }
    start = await _offsets(admin, topics, OffsetSpec.EARLIEST)
    end = await _offsets(admin, topics, OffsetSpec.LATEST)
    return [
        {
            **_topic_json(topic),
            "configs": configs[topic.name],
            "partitions": [
                {
                    "partition": index,
                    "leader": None if p.leader == NO_LEADER else p.leader,
                    "leader_epoch": p.leader_epoch,
                    "replicas": list(p.replicas),
                    "isr": list(p.in_sync_replicas),
                    "offline": list(p.offline_replicas),
                    "under_replicated": is_under_replicated(p),
                    "start_offset": start.get(TopicPartition(topic.name, index)),
                    "end_offset": end.get(TopicPartition(topic.name, index)),
                }
                for index, p in sorted(topic.partitions.items())
            ],
        }
        for topic in topics
    ]


async def _offsets(
    admin: Admin, topics: Sequence[TopicView], spec: OffsetSpec
) -> dict[TopicPartition, int]:
    """Offsets of the partitions that have a leader."""
    wanted = {
        TopicPartition(topic.name, index): int(spec)
        for topic in topics
        for index, partition in topic.partitions.items()
        if partition.leader != NO_LEADER
    }
    listed = await admin.list_offsets(wanted) if wanted else {}
    return {p: found.offset for p, found in listed.items() if not isinstance(found, KafkaError)}


def _print_description(item: Document) -> None:
    configs = " ".join(f"{name}={value}" for name, value in item["configs"].items())
    replicas = _count(item["replication_factor"], "replica")
    click.echo(f"{item['topic']}  id {item['topic_id']}  {replicas}  {configs}".rstrip())
    columns = ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END", "STATE")
    keys = (
        "partition",
        "leader",
        "leader_epoch",
        "replicas",
        "isr",
        "start_offset",
        "end_offset",
        "state",
    )
    rows = [
        {**p, "leader": "none" if p["leader"] is None else p["leader"], "state": _state(p)}
        for p in item["partitions"]
    ]
    print_table(columns, [[row[key] for key in keys] for row in rows])


def _state(partition: Document) -> str:
    if partition["leader"] is None:
        return "no leader"
    if partition["offline"]:
        return f"under-replicated, offline on {', '.join(map(str, partition['offline']))}"
    return "under-replicated" if partition["under_replicated"] else "in sync"
