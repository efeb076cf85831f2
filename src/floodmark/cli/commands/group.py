"""`floodmark group ...`: list, describe, members, offsets, delete (reset: `group_reset.py`)."""

from __future__ import annotations

import click

from floodmark.cli.commands.group_offsets import offset_rows
from floodmark.cli.commands.group_reset import reset
from floodmark.cli.errors import CliError, fail_with
from floodmark.cli.help import Group
from floodmark.cli.options import names_option, output_option, parse_topics, require
from floodmark.cli.output import JSON, Document, print_json, print_table
from floodmark.cli.session import admin_option, failure, run_client
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.group_admin import GroupDescription, GroupListing
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError

group_names = names_option("GROUP", "--group")


@click.group(
    cls=Group,
    examples=[
        "floodmark group list",
        "floodmark group describe billing",
        "floodmark group reset billing --topic orders --to-earliest --execute",
    ],
)
def group() -> None:
    """List, describe, reset and delete consumer groups."""


group.add_command(reset)


@group.command(
    "list", examples=["floodmark group list", "floodmark group list --state Empty -o json"]
)
@click.option(
    "--state", "states", multiple=True, help="Show only groups in this state, such as Empty."
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(["classic", "consumer"]),
    help="Show only groups that use this protocol.",
)
@output_option
@admin_option
def list_groups(
    states: tuple[str, ...],
    types: tuple[str, ...],
    output: str,
    admin: Admin,
) -> None:
    """List groups."""

    async def work() -> list[GroupListing]:
        async with admin:
            return await admin.list_groups(states=states, types=types)

    groups = run_client(work())
    if output == JSON:
        print_json(
            [
                {
                    "group": item.group_id,
                    "type": item.type,
                    "protocol": item.protocol_type,
                    "state": item.state,
                }
                for item in groups
            ]
        )
    elif groups:
        rows = [(g.group_id, g.type or None, g.protocol_type or None, g.state) for g in groups]
        print_table(("GROUP", "TYPE", "PROTOCOL", "STATE"), rows)
    else:
        what = "matching groups" if states or types else "groups"
        click.echo(f"there are no {what}", err=True)


@group.command(examples=["floodmark group describe", "floodmark group describe billing -o json"])
@group_names
@output_option
@admin_option
def describe(
    names: list[str],
    output: str,
    admin: Admin,
) -> None:
    """Show the state of groups, who reads which partition, and lag. Default: all groups."""

    async def work() -> tuple[list[Document], list[CliError]]:
        async with admin:
            wanted = names or [listing.group_id for listing in await admin.list_groups()]
            found, failures = await _described(admin, wanted)
            documents = [
                _summary(item) | {"partitions": await offset_rows(admin, item)} for item in found
            ]
            return documents, failures

    described, failures = run_client(work())
    if output == JSON:
        print_json(described)
    else:
        for item in described:
            _print_partitions(item)
        if not described and not failures:
            click.echo("there are no groups", err=True)
    fail_with(failures)


@group.command(examples=["floodmark group members billing"])
@group_names
@output_option
@admin_option
def members(
    names: list[str],
    output: str,
    admin: Admin,
) -> None:
    """Show the members of groups and their assignments."""
    require(names, "group")

    async def work() -> tuple[list[GroupDescription], list[CliError]]:
        async with admin:
            return await _described(admin, names)

    described, failures = run_client(work())
    documents = [
        _summary(item)
        | {
            "members": [
                {
                    "member": member.member_id,
                    "instance": member.group_instance_id,
                    "client_id": member.client_id,
                    "host": member.host,
                    "partitions": [str(p) for p in sorted(member.assignment)],
                }
                for member in item.members
            ]
        }
        for item in described
    ]
    if output == JSON:
        print_json(documents)
    else:
        for document in documents:
            _print_summary(document)
            print_table(
                ("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"),
                [list(member.values()) for member in document["members"]],
            )
    fail_with(failures)


@group.command(examples=["floodmark group offsets billing -o json"])
@group_names
@output_option
@admin_option
def offsets(
    names: list[str],
    output: str,
    admin: Admin,
) -> None:
    """Show committed offsets with lag and metadata."""
    require(names, "group")

    async def work() -> tuple[list[Document], list[CliError]]:
        async with admin:
            described, failures = await _described(admin, names)
            rows = [
                {"group": item.group_id} | row
                for item in described
                for row in await offset_rows(admin, item)
                if row["committed"] is not None
            ]
            return rows, failures

    found, failures = run_client(work())
    keys = ("group", "topic", "partition", "committed", "start", "end", "lag", "metadata")
    rows = [{key: row[key] for key in keys} for row in found]
    if output == JSON:
        print_json(rows)
    elif rows:
        print_table([key.upper() for key in keys], [list(row.values()) for row in rows])
    elif not failures:
        click.echo("no offsets are committed", err=True)
    fail_with(failures)


@group.command(
    examples=[
        "floodmark group delete billing",
        "floodmark group delete billing --topic orders:0,1",
    ]
)
@group_names
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:0,1]",
    help="Delete only the offsets of this topic.",
)
@output_option
@admin_option
def delete(
    names: list[str],
    topics: tuple[str, ...],
    output: str,
    admin: Admin,
) -> None:
    """Delete groups that have no members, or their offsets for topics that no member reads."""
    require(names, "group")
    scope = parse_topics(topics)

    async def work() -> dict[str, KafkaError | None]:
        async with admin:
            if not scope:
                return await admin.delete_groups(names)
            return {name: await _delete_offsets(admin, name, scope) for name in names}

    outcomes = run_client(work())
    errors = {name: error for name, error in outcomes.items() if error is not None}
    what = "offsets of group" if scope else "group"
    if output == JSON:
        print_json(
            [
                {"group": name, "error": error.code.name if error else None}
                for name, error in sorted(outcomes.items())
            ]
        )
    else:
        for name in outcomes:
            if name not in errors:
                click.echo(f"{what} {name} deleted")
    verb = "were" if scope else "was"
    fail_with(
        [failure(error, f"{what} {name} {verb} not deleted") for name, error in errors.items()]
    )


# --- helpers ---


async def _described(
    admin: Admin, names: list[str]
) -> tuple[list[GroupDescription], list[CliError]]:
    """The groups found, and a failure for each that was not."""
    found: list[GroupDescription] = []
    failures: list[CliError] = []
    for name, answer in (await admin.describe_groups(names)).items():
        if isinstance(answer, KafkaError):
            failures.append(failure(answer, f"group {name} could not be described"))
        else:
            found.append(answer)
    return found, failures


def _print_partitions(document: Document) -> None:
    _print_summary(document)
    keys = ("topic", "partition", "committed", "end", "lag", "member", "client_id", "host")
    columns = ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "CLIENT", "HOST")
    print_table(columns, [[row[key] for key in keys] for row in document["partitions"]])


async def _delete_offsets(
    admin: Admin, name: str, scope: dict[str, list[int] | None]
) -> KafkaError | None:
    """Returns the first error, or None. A topic without partitions means all committed ones."""
    committed = await admin.list_group_offsets(name)
    partitions = [
        TopicPartition(topic, index)
        for topic, indexes in scope.items()
        for index in (
            sorted(p.partition for p in committed if p.topic == topic)
            if indexes is None
            else indexes
        )
    ]
    try:
        outcomes = await admin.delete_group_offsets(name, partitions)
    except KafkaError as error:
        return error
    return next((error for error in outcomes.values() if error is not None), None)


def _summary(item: GroupDescription) -> Document:
    return {
        "group": item.group_id,
        "state": item.state,
        "type": item.type,
        "protocol": item.protocol_type,
        "assignor": item.assignor or None,
        "coordinator": None if item.coordinator is None else item.coordinator.node_id,
        "members": len(item.members),
    }


def _print_summary(document: Document) -> None:
    count = document["members"] if isinstance(document["members"], int) else None
    count = len(document["members"]) if count is None else count
    noun = "member" if count == 1 else "members"
    assignor = f"  assignor {document['assignor']}" if document["assignor"] else ""
    click.echo(
        f"{document['group']}  {document['state']}  {document['type']}{assignor}  "
        f"coordinator {document['coordinator']}  {count} {noun}"
    )
