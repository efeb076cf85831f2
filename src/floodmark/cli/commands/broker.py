"""`floodmark broker ...`: list the brokers of a cluster, shut one down cleanly."""

from __future__ import annotations

import click

from floodmark.cli.cluster_health import broker_rows
from floodmark.cli.errors import CliError
from floodmark.cli.help import Group
from floodmark.cli.local_broker import find_local_broker
from floodmark.cli.options import FiniteRange, output_option
from floodmark.cli.output import JSON, Document, print_json, print_table
from floodmark.cli.session import admin_option, run_client
from floodmark.client.admin.admin import Admin

_COLUMNS = ("BROKER", "ADDRESS", "RACK", "CONTROLLER", "LEADS", "REPLICAS", "OUT-OF-SYNC")


@click.group(cls=Group, examples=["floodmark broker list", "floodmark broker stop 2"])
def broker() -> None:
    """List brokers and shut one down cleanly."""


@broker.command("list", examples=["floodmark broker list", "floodmark broker list --json"])
@output_option
@admin_option
def list_brokers(output: str, admin: Admin) -> None:
    """List running brokers with the partitions they lead, hold and lag on."""

    async def work() -> list[Document]:
        async with admin:
            topics = await admin.list_topics(include_internal=True)
            return broker_rows(await admin.describe_cluster(), topics)

    rows = run_client(work())
    if output == JSON:
        print_json(rows)
    else:
        print_brokers(rows)


def print_brokers(rows: list[Document]) -> None:
    shown = [{**row, "controller": "yes" if row["controller"] else None} for row in rows]
    print_table(_COLUMNS, [list(row.values()) for row in shown])


@broker.command(
    examples=["floodmark broker stop 2", "floodmark broker stop 2 --timeout 120 --json"]
)
@click.argument("broker_id", metavar="BROKER", type=int)
@click.option(
    "--timeout", type=FiniteRange(0), default=60, help="Seconds to wait for it to stop; 60."
)
@output_option
@admin_option
def stop(broker_id: int, timeout: float, output: str, admin: Admin) -> None:
    """Shut down a broker that runs on this machine.

    The broker hands its partitions over to other leaders, syncs its logs and leaves the cluster.
    """

    async def find() -> tuple[str, list[str]]:
        async with admin:
            cluster = await admin.describe_cluster()
            if broker_id not in {one.node_id for one in cluster.brokers}:
                raise CliError(
                    f"broker {broker_id} is not part of the cluster",
                    hint="`floodmark broker list` lists the cluster's brokers",
                )
            folders = await admin.describe_log_dirs([broker_id])
            return cluster.cluster_id, [folder.path for folder in folders[broker_id]]

    cluster_id, folders = run_client(find())
    process = find_local_broker(folders, cluster_id, broker_id)
    if process is None:
        raise CliError(
            f"broker {broker_id} is not running on this machine",
            why=f"no process here uses {', '.join(folders)}",
            hint="send SIGTERM to its process on the machine it runs on",
        )
    process.terminate()
    if not process.wait(timeout):
        raise CliError(
            f"broker {broker_id} (process {process.pid}) did not stop within {timeout:g} s",
            hint="it is still stopping; its log says what it is waiting for",
        )
    if output == JSON:
        print_json({"broker": broker_id, "pid": process.pid, "stopped": True})
    else:
        click.echo(f"broker {broker_id} has stopped")
