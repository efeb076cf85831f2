"""`floodmark cluster ...`: the cluster's brokers, its health and its disk usage."""

from __future__ import annotations

from typing import Any

import click

from floodmark.cli.cluster_health import summary
from floodmark.cli.commands.broker import print_brokers
from floodmark.cli.help import Group
from floodmark.cli.options import output_option
from floodmark.cli.output import JSON, Document, print_json, print_table
from floodmark.cli.session import admin_option, run_client
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import LogDir

UNHEALTHY = 3
"""The exit code of `status` for a cluster that answers but is not healthy."""


@click.group(cls=Group, examples=["floodmark cluster status", "floodmark cluster describe"])
def cluster() -> None:
    """Inspect the cluster as a whole."""


@cluster.command(
    examples=["floodmark cluster describe", "floodmark cluster describe -b kafka:9092 -o json"]
)
@output_option
@admin_option
def describe(output: str, admin: Admin) -> None:
    """Show the cluster id, brokers, controller and log directories."""

    async def work() -> Document:
        async with admin:
            found = await admin.describe_cluster()
            folders = await admin.describe_log_dirs([broker.node_id for broker in found.brokers])
            return {
                "cluster_id": found.cluster_id,
                "controller": found.controller_id,
                "brokers": [
                    {
                        "broker": broker.node_id,
                        "address": str(broker.address),
                        "rack": broker.rack,
                        "log_dirs": [_folder(item) for item in folders[broker.node_id]],
                    }
                    for broker in sorted(found.brokers, key=lambda broker: broker.node_id)
                ],
            }

    document = run_client(work())
    if output == JSON:
        print_json(document)
        return
    click.echo(f"cluster {document['cluster_id']}  controller {document['controller']}")
    columns = ("BROKER", "ADDRESS", "RACK", "FOLDER", "REPLICAS", "BYTES", "FREE-BYTES", "ERROR")
    rows = [
        (broker["broker"], broker["address"], broker["rack"], *folder.values())
        for broker in document["brokers"]
        for folder in broker["log_dirs"]
    ]
    print_table(columns, rows)


@cluster.command(examples=["floodmark cluster status", "floodmark cluster status --json"])
@output_option
@admin_option
def status(output: str, admin: Admin) -> int:
    """Check that all brokers and replicas are available.

    A cluster is healthy when it has a controller, every partition has a leader, and all replicas
    are in sync. The exit code is 0 if it is healthy, 3 if not, and 1 if no broker answers.
    """

    async def work() -> Document:
        async with admin:
            topics = await admin.list_topics(include_internal=True)
            moves = await admin.list_partition_reassignments()
            return summary(await admin.describe_cluster(), topics, moves)

    document = run_client(work())
    if output == JSON:
        print_json(document)
    else:
        _print_status(document)
    return 0 if document["healthy"] else UNHEALTHY


def _print_status(document: Document) -> None:
    health = "healthy" if document["healthy"] else "not healthy"
    controller = document["controller"]
    click.echo(
        f"cluster {document['cluster_id']} is {health}  "
        f"controller {'none' if controller is None else controller}  "
        f"{_counted(document['topics'], 'topic')}  {_counted(document['partitions'], 'partition')}"
    )
    print_brokers(document["brokers"])
    if document["missing_brokers"]:
        missing = ", ".join(map(str, document["missing_brokers"]))
        click.echo(f"not running, but holding replicas: broker {missing}")
    for key, text in _FINDINGS.items():
        if document[key]:
            click.echo(f"{text}: {_listed(document[key])}")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


_FINDINGS = {
    "without_leader": "partitions without a leader",
    "under_replicated": "partitions with out-of-sync replicas",
    "not_led_by_preferred": "partitions not led by their preferred replica",
    "moving": "partitions being reassigned",
}
_SHOWN = 10


def _listed(names: list[Any]) -> str:
    shown = ", ".join(map(str, names[:_SHOWN]))
    return f"{len(names)} ({shown}{', ...' if len(names) > _SHOWN else ''})"


def _folder(item: LogDir) -> Document:
    return {
        "path": item.path,
        "replicas": len(item.replicas),
        "bytes": sum(replica.size_bytes for replica in item.replicas),
        "free_bytes": None if item.usable_bytes < 0 else item.usable_bytes,
        "error": None if item.error is None else str(item.error),
    }
