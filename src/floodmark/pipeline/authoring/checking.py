"""Checks a pipeline before any query starts. Every finding names its line.

Called by `runner.py`, for `floodmark pipeline check` and before every run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from floodmark.client.cluster.cluster import Cluster
from floodmark.pipeline.authoring.building import Built
from floodmark.pipeline.authoring.declarations import DeclarationError, Output, Pipeline
from floodmark.pipeline.authoring.replays import changed_starts
from floodmark.pipeline.authoring.tables import catalog_location, check_batches
from floodmark.pipeline.datasource.options import check_exactly_once, parse_write_options
from floodmark.pipeline.datasource.sink import check_columns, check_no_other_columns
from floodmark.pipeline.errors import PipelineError, short_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from floodmark.pipeline.authoring.checkpoints import Checkpoint


def check_topic_columns(item: Built) -> None:
    if item.topic is None:
        return
    try:
        options = parse_write_options(item.options)
        if item.output.delivery == "exactly_once":
            check_exactly_once(options)
        check_columns(item.rows.schema, options)
        check_no_other_columns(item.rows.schema)
    except PipelineError as error:
        raise DeclarationError(item.output.place, str(error)) from error


def check_streaming(spark: SparkSession, item: Built) -> None:
    """Whether Spark can run the plan as a stream with this mode and trigger."""
    jvm: Any = spark.sparkContext._jvm
    frame: Any = item.rows
    catalyst = jvm.org.apache.spark.sql.catalyst
    mode = catalyst.streaming.InternalOutputModes.apply(item.output.output_mode)
    plan = frame._jdf.queryExecution().analyzed()
    try:
        catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, mode)
        item.rows.writeStream.trigger(processingTime=item.trigger)
    except (PySparkException, Py4JJavaError) as error:
        raise DeclarationError(item.output.place, short_text(error)) from error


def check_folders(built: Sequence[Built]) -> None:
    """Every table needs its own folder."""
    owners: dict[str, Output] = {}
    for item in built:
        table = item.table or item.catalog_table
        if table is None:
            continue
        output, other = item.output, owners.setdefault(table, item.output)
        if other is not output:
            raise DeclarationError(
                output.place,
                f"{output.name} and {other.name} ({other.place}) write to the same folder, "
                f"{table}, where the batches of one would be mistaken for those of the other: "
                "use two folders",
            )


def check_known_batches(spark: SparkSession, item: Built, checkpoint: Checkpoint) -> None:
    table = item.table
    try:
        if item.catalog_table is not None:
            table = catalog_location(spark, item.catalog_table)
        if table is not None:
            check_batches(spark, table, checkpoint.last_planned(item.output.name))
    except PipelineError as error:
        raise DeclarationError(item.output.place, str(error)) from error
    except (PySparkException, Py4JJavaError) as error:
        raise DeclarationError(
            item.output.place,
            f"Spark cannot reach the table {item.target}: {short_text(error)}. Correct the path; "
            "a file system that Spark lacks needs its jar, with --conf spark.jars.packages",
        ) from error


def ineffective_starts(item: Built, checkpoint: Checkpoint) -> list[str]:
    """Words about changed options that do nothing, because the output has a position."""
    name = item.output.name
    if checkpoint.last_planned(name) is None:
        return []
    return [
        f"{name} continues from its checkpoint, so the new start of source {source} has no "
        f"effect: `floodmark pipeline replay {name} --from earliest` moves it"
        for source in changed_starts(checkpoint.folder, name, item.starts)
    ]


def check_sources(pipeline: Pipeline, bootstrap_server: str) -> None:
    """Source topics must exist. The broker creates topics that are written."""
    sources = [source for source in pipeline.sources.values() if source.reads_topics]
    topics = asyncio.run(_topics_of(bootstrap_server)) if sources else set()
    for source in sources:
        # A missing topic on another broker is found when its query starts.
        is_elsewhere = "kafka.bootstrap.servers" in map(str.lower, source.options)
        names = pipeline.text(source.topic, source.place).split(",")
        for topic in [name.strip() for name in names if name.strip() and not is_elsewhere]:
            if topic in topics:
                continue
            raise DeclarationError(
                source.place,
                f"topic {topic} of source {source.name} does not exist: create it with "
                f"`floodmark topic create {topic}`, or correct the name",
            )


async def _topics_of(bootstrap_server: str) -> set[str]:
    async with Cluster(bootstrap_server) as cluster:
        return set((await cluster.refresh_all_topics()).topics)
