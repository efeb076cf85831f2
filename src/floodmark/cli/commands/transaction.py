"""`floodmark transaction ...`: list and describe transactions, abort hanging ones."""

from __future__ import annotations

import click

from floodmark.cli.errors import CliError, fail_with
from floodmark.cli.help import Group
from floodmark.cli.options import names_option, output_option, require
from floodmark.cli.output import JSON, Document, print_json, print_table
from floodmark.cli.session import admin_option, check_partitions, failure, run_client
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import ActiveProducer
from floodmark.client.admin.transaction_admin import TransactionDescription, TransactionListing
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError
from floodmark.clock import SystemClock

id_names = names_option("TRANSACTIONAL_ID", "--transactional-id")


@click.group(
    cls=Group,
    examples=["floodmark transaction list", "floodmark transaction describe payments-1"],
)
def transaction() -> None:
    """List, describe and abort transactions."""


@transaction.command(
    "list",
    examples=[
        "floodmark transaction list --state Ongoing",
        "floodmark transaction list --duration-filter 60000 -o json",
    ],
)
@click.option("--state", "states", multiple=True, help="Only this state, such as Ongoing.")
@click.option(
    "--producer-id", "producer_ids", type=int, multiple=True, help="Only this producer id."
)
@click.option(
    "--duration-filter",
    type=int,
    default=-1,
    metavar="MS",
    help="Only transactions open for longer.",
)
@click.option("--transactional-id-pattern", help="Only ids that match this RE2 pattern.")
@output_option
@admin_option
def list_transactions(
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    duration_filter: int,
    transactional_id_pattern: str | None,
    output: str,
    admin: Admin,
) -> None:
    """List transactional ids and the state of their transactions."""

    async def work() -> list[TransactionListing]:
        async with admin:
            return await admin.list_transactions(
                states=states,
                producer_ids=producer_ids,
                longer_than_ms=duration_filter,
                pattern=transactional_id_pattern,
            )

    documents = [
        {
            "transactional_id": item.transactional_id,
            "coordinator": item.coordinator_id,
            "producer_id": item.producer_id,
            "state": item.state,
        }
        for item in run_client(work())
    ]
    if output == JSON:
        print_json(documents)
    elif documents:
        columns = ("TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE")
        print_table(columns, [list(document.values()) for document in documents])
    else:
        is_filtered = states or producer_ids or duration_filter >= 0 or transactional_id_pattern
        what = "matching transactions" if is_filtered else "transactions"
        click.echo(f"there are no {what}", err=True)


@transaction.command(examples=["floodmark transaction describe payments-1"])
@id_names
@output_option
@admin_option
def describe(
    names: list[str],
    output: str,
    admin: Admin,
) -> None:
    """Show the producer, state, age and partitions of transactions."""
    require(names, "transactional id")

    async def work() -> dict[str, TransactionDescription | KafkaError]:
        async with admin:
            return await admin.describe_transactions(names)

    documents: list[Document] = []
    failures: list[CliError] = []
    for name, found in run_client(work()).items():
        if isinstance(found, KafkaError):
            failures.append(failure(found, f"transactional id {name} could not be described"))
        else:
            documents.append(_document(found, SystemClock().now_ms()))
    if output == JSON:
        print_json(documents)
    elif documents:
        columns = [key.upper().replace("_", "-") for key in documents[0]]
        print_table(columns, [list(document.values()) for document in documents])
    fail_with(failures)


@transaction.command(
    examples=[
        "floodmark transaction abort payments-1",
        "floodmark transaction abort --topic orders --partition 0 --start-offset 42",
    ]
)
@id_names
@click.option("--topic", help="Topic of a hanging transaction.")
@click.option("--partition", type=int, help="Partition of a hanging transaction.")
@click.option("--start-offset", type=int, help="First offset of the hanging transaction.")
@click.option("--producer-id", type=int, help="Producer id of the hanging transaction.")
@click.option("--producer-epoch", type=int, help="Producer epoch of the hanging transaction.")
@click.option("--coordinator-epoch", type=int, help="Coordinator epoch to write; 0 if unknown.")
@admin_option
def abort(
    names: list[str],
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    admin: Admin,
) -> None:
    """Abort the transaction of a transactional id, or one hanging in a partition.

    Given an id, the coordinator aborts the transaction in all partitions and fences its producer. A
    hanging transaction is one that no coordinator knows: give --topic and --partition, plus either
    --start-offset or both --producer-id and --producer-epoch.
    """
    if names:
        if topic is not None or partition is not None:
            raise click.UsageError("give transactional ids or a partition, not both")
        run_client(_fence(admin, names))
        return
    if topic is None or partition is None:
        raise click.UsageError("name what to abort: a transactional id, or --topic and --partition")
    by_producer = producer_id is not None and producer_epoch is not None
    if by_producer == (start_offset is not None):
        raise click.UsageError("give either --start-offset or --producer-id and --producer-epoch")
    where = TopicPartition(topic, partition)

    async def work() -> None:
        async with admin:
            await check_partitions(admin, [where])
            hanging = (producer_id or 0, producer_epoch or 0, coordinator_epoch or 0)
            if start_offset is not None:
                found = await _producer_at(admin, where, start_offset)
                known_epoch = max(0, found.coordinator_epoch)
                hanging = (found.producer_id, found.producer_epoch, known_epoch)
            await admin.abort_hanging_transaction(
                where,
                producer_id=hanging[0],
                producer_epoch=hanging[1],
                coordinator_epoch=hanging[2],
            )

    run_client(work())
    click.echo(f"the transaction in {where} was aborted")


async def _fence(admin: Admin, ids: list[str]) -> None:
    async with admin:
        # Fencing an unused id would create it, so check first.
        for name, found in (await admin.describe_transactions(ids)).items():
            if isinstance(found, KafkaError):
                raise failure(found, f"the transaction of {name} was not aborted")
        for name in ids:
            await admin.fence_producer(name)
            click.echo(f"the transaction of {name} was aborted and its producer fenced")


async def _producer_at(
    admin: Admin, partition: TopicPartition, start_offset: int
) -> ActiveProducer:
    found = (await admin.describe_producers([partition]))[partition]
    if isinstance(found, KafkaError):
        raise failure(found, f"the producers of {partition} could not be described")
    for producer in found:
        if producer.current_transaction_start_offset == start_offset:
            return producer
    starts = sorted(
        p.current_transaction_start_offset for p in found if p.current_transaction_start_offset >= 0
    )
    raise CliError(
        f"no transaction in {partition} begins at offset {start_offset}",
        why=f"open transactions begin at {', '.join(map(str, starts)) or 'no offset at all'}",
    )


def _document(found: TransactionDescription, now_ms: int) -> Document:
    started_ms = found.start_time_ms
    return {
        "transactional_id": found.transactional_id,
        "coordinator": found.coordinator_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "state": found.state,
        "timeout_ms": found.timeout_ms,
        "start_time_ms": started_ms,
        "open_ms": None if started_ms is None else max(0, now_ms - started_ms),
        "partitions": [str(partition) for partition in sorted(found.partitions)],
    }
