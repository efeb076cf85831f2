"""`floodmark demo`: runs a broker, a stream of orders and a Spark pipeline, and shows the results.

Runs examples/shop unchanged. Finishes within two minutes and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from floodmark.cli.commands.demo_broker import demo_broker
from floodmark.cli.commands.demo_shop import Shop
from floodmark.cli.errors import CliError
from floodmark.cli.help import Command
from floodmark.cli.output import print_table
from floodmark.cli.pipeline_kit import stopped_by_signals, told
from floodmark.clock import SystemClock
from floodmark.pipeline.spark.session import check_machine

if TYPE_CHECKING:
    from floodmark.pipeline.authoring.declarations import Pipeline
    from floodmark.pipeline.authoring.progress import OutputProgress
    from floodmark.pipeline.authoring.runner import Runner
    from floodmark.service.interface import Interface

# The whole demo must stay under two minutes, including starting and stopping Spark.
LATEST_END_MS = 90_000


@click.command(cls=Command, examples=["floodmark demo", "floodmark demo --keep"])
@click.option("--seconds", default=15, show_default=True, help="How long to send orders.")
@click.option("--keep", is_flag=True, help="Run until Ctrl-C and keep the data.")
def demo(seconds: int, keep: bool) -> None:
    """Watch a broker and a pipeline work: windowed revenue, a join, and dead letters."""
    clock = SystemClock()
    started_ms = clock.monotonic_ms()
    with told():
        check_machine()
    with told(), _folder(keep) as folder, demo_broker(folder) as bootstrap:
        _say(f"a broker is running at {bootstrap}, its data is in {folder}")
        with Shop(bootstrap) as shop:
            _say("created the topics orders and products, and wrote a product table")
            _run(folder, bootstrap, shop, seconds, keep, started_ms)
    took = (clock.monotonic_ms() - started_ms) / 1000
    _say(f"done in {took:.0f} s; stopped the broker and Spark")


def _run(
    folder: Path, bootstrap: str, shop: Shop, seconds: int, keep: bool, started_ms: float
) -> None:
    from floodmark.pipeline.authoring.checkpoints import open_checkpoint
    from floodmark.pipeline.authoring.loading import load_pipeline
    from floodmark.pipeline.authoring.runner import Runner
    from floodmark.pipeline.spark.session import spark_session

    example = shop_folder()
    pipeline = load_pipeline(example, overrides={"tables": str(folder / "tables")})
    _say(f"starting Spark; the pipeline is {example}/pipeline.py")
    with spark_session(pipeline.name, shuffle_partitions=1, is_short=True) as spark:
        checkpoint = open_checkpoint(folder / "checkpoint", pipeline.name, bootstrap)
        runner = Runner(spark, pipeline, bootstrap_server=bootstrap, checkpoint=checkpoint)
        shop.open_for(None if keep else seconds)
        watcher = _Watcher(runner, shop, None if keep else started_ms + LATEST_END_MS)
        with stopped_by_signals(runner):
            runner.run(show=watcher.see)
        shop.close()
        archived = spark.read.parquet(str(folder / "tables" / "orders")).count()
    _show_results(shop, archived)
    _call_table(pipeline, bootstrap)


def _call_table(pipeline: Pipeline, bootstrap: str) -> None:
    """Serves the revenue topic as a Dubbo service and calls it from Python and from Java."""
    try:
        asyncio.run(_serve_and_call(pipeline, bootstrap))
    except ModuleNotFoundError as error:
        _say(f"skipped: the revenue table as a Dubbo service, which needs {error.name}")


async def _serve_and_call(pipeline: Pipeline, bootstrap: str) -> None:
    from floodmark.cli.commands.service import tables_of
    from floodmark.service.consumer import Consumer

    (table,) = tables_of(pipeline)
    fields = [field.name for field in dataclasses.fields(table.row)]
    async with table.serve(bootstrap, port=-1) as served, Consumer() as consumer:
        url = f"dubbo://127.0.0.1:{served.export.urls[0].port}/{table.interface}"
        reference = await consumer.reference(served.interface, url=url, timeout_ms=10_000)
        found: list[Any] = await reference.call(served.interface.methods["scan"], [None, 10])
        rows = [["-" if (v := getattr(row, f)) == "" else v for f in fields] for row in found]
        _show_table("the topic revenue as a Dubbo service; scan(null, 10) returns:", fields, rows)
        await _call_from_java(served.interface, fields, url)


async def _call_from_java(interface: Interface, fields: list[str], url: str) -> None:
    from floodmark.cli.demo_java import NotShown, java_rows, missing_tools

    missing = missing_tools()
    if missing:
        _say(f"skipped: the same call from Java, which needs {' and '.join(missing)}")
        return
    _say("the same call from Java with Apache Dubbo 3.3.6; Maven builds the consumer")
    try:
        rows = await asyncio.to_thread(java_rows, interface, fields, url)
    except NotShown as reason:
        _say(f"skipped: {reason}")
        return
    _show_table("reference.get().scan(null, 10) in Java returns:", fields, rows)


def _show_table(title: str, fields: list[str], rows: list[list[Any]]) -> None:
    click.echo()
    _say(title)
    print_table([field.upper() for field in fields], rows)


class _Watcher:
    """Prints each batch. Stops the pipeline once it has processed all orders or time runs out."""

    def __init__(self, runner: Runner, shop: Shop, latest_end_ms: float | None) -> None:
        self._runner = runner
        self._shop = shop
        self._latest_end_ms = latest_end_ms
        self._clock = SystemClock()
        self._seen: dict[str, int | None] = {}

    def see(self, outputs: list[OutputProgress]) -> None:
        for item in outputs:
            if item.batch is not None and self._seen.get(item.name) != item.batch and item.rows_in:
                self._seen[item.name] = item.batch
                click.echo(f"  {item.line()}")
        if self._latest_end_ms is None:
            return
        caught_up = all(item.position >= self._shop.sent for item in outputs)
        late = self._clock.monotonic_ms() > self._latest_end_ms
        if late or (self._shop.has_closed and caught_up):
            self._runner.stop()


def _show_results(shop: Shop, archived: int) -> None:
    click.echo()
    _say(f"sent {shop.sent} orders, {shop.spoiled} of them deliberately malformed")
    latest: dict[tuple[str, str], tuple[float, int]] = {}
    for record in shop.read("revenue"):
        row = json.loads(record.value or b"{}")
        category = (record.key or b"-").decode()
        latest[category, row["since"]] = (row.get("revenue", 0.0), row["orders"])
    print_table(
        ["CATEGORY", "SINCE", "REVENUE", "ORDERS"],
        [[c, since, f"{r:,.2f}", n] for (c, since), (r, n) in sorted(latest.items())][-12:],
    )
    click.echo()
    _say(f"{archived} orders are in the Parquet table")
    letters = shop.read("orders-dead")
    _say(f"{len(letters)} dead letters; the first one:")
    for record in letters[:1]:
        click.echo(f"  {(record.value or b'').decode()}")
        for name, value in record.headers:
            click.echo(f"    {name}: {(value or b'').decode()}")


def shop_folder() -> Path:
    """The example in the source checkout, or the copy inside the wheel."""
    import floodmark

    package = Path(floodmark.__file__).parent
    for folder in (package / "examples" / "shop", package.parent.parent / "examples" / "shop"):
        if folder.exists():
            return folder
    raise CliError("this installation does not include the example pipeline")


@contextmanager
def _folder(keep: bool) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="floodmark-demo-"))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _say(text: str) -> None:
    click.echo(click.style("* ", fg="cyan") + text)
