"""Checks that an output can continue from its checkpoint: the same sources, a fitting state.

Called by `runner.py`. Spark checks this itself, but only in the first batch of a started query. So
the plan is prepared as for that batch, on a copy of the few files that describe the state.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from floodmark.pipeline.authoring.building import Built
from floodmark.pipeline.authoring.declarations import DeclarationError
from floodmark.pipeline.errors import short_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from floodmark.pipeline.authoring.checkpoints import Checkpoint

logger = logging.getLogger(__name__)

# The files that describe an operator and the schema of its state. All others are state.
_DESCRIPTIONS = ("_metadata", "_stateSchema", "0/_metadata")


def check_state(spark: SparkSession, item: Built, checkpoint: Checkpoint) -> None:
    name = item.output.name
    last = checkpoint.last_planned(name)
    if last is None:
        return
    before, now = len(checkpoint.plan(name, last)) - 2, _number_of_streams(item)
    if before != now:
        raise _other_shape(item, f"it reads {now} streams, but {before} when it last ran")
    folder = checkpoint.of_output(name)
    with tempfile.TemporaryDirectory(prefix="floodmark-checkpoint-") as scratch:
        state = f"{scratch}/state"
        # Spark reads descriptions only up to the last planned batch.
        planned = Path(scratch, "offsets", str(last + 1))
        planned.parent.mkdir()
        planned.touch()
        try:
            _copy_descriptions(spark, f"{folder}/state", state)
            _prepare(spark, item, state, last + 1, checkpoint.plan(name, last)[1])
        except (PySparkException, Py4JJavaError) as error:
            raise _other_shape(item, short_text(error)) from error
        except (Py4JError, TypeError) as error:
            # Spark of another version, as a cluster may have. It checks in the first batch.
            logger.debug("the state of %s is not checked: %s", name, error)


def _other_shape(item: Built, why: str) -> DeclarationError:
    name = item.output.name
    return DeclarationError(
        item.output.place,
        f"{name} cannot continue from its checkpoint: undo the change, or start over with "
        f"`floodmark pipeline replay {name} --from earliest`. The difference: {why}",
    )


def _number_of_streams(item: Built) -> int:
    frame: Any = item.rows
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    # As Spark counts: a source that is used twice is two streams.
    return sum(leaves.apply(number).isStreaming() for number in range(leaves.size()))


def _copy_descriptions(spark: SparkSession, source: str, scratch: str) -> None:
    context: Any = spark.sparkContext
    fs, conf = context._jvm.org.apache.hadoop.fs, context._jsc.hadoopConfiguration()
    state = fs.Path(source)
    files = state.getFileSystem(conf)
    if not files.exists(state):
        return
    for operator in files.listStatus(state):
        for path, name in _existing(fs, files, operator.getPath()):
            target = Path(scratch, operator.getPath().getName(), name)
            target.parent.mkdir(parents=True, exist_ok=True)
            local = fs.Path(f"file://{target}")
            fs.FileUtil.copy(files, path, local.getFileSystem(conf), local, False, conf)


def _existing(fs: Any, files: Any, operator: Any) -> Iterator[tuple[Any, str]]:
    for name in _DESCRIPTIONS:
        path = fs.Path(operator, name)
        if files.exists(path):
            yield path, name


def _prepare(spark: SparkSession, item: Built, state: str, batch: int, metadata: str) -> None:
    """Plans the next batch as Spark does after a restart. Nothing is executed."""
    jvm: Any = spark.sparkContext._jvm
    session: Any = spark
    frame: Any = item.rows
    java_session = session._jsparkSession
    streaming = jvm.org.apache.spark.sql.execution.streaming
    execution = streaming.runtime.IncrementalExecution
    catalyst = jvm.org.apache.spark.sql.catalyst
    mode = catalyst.streaming.InternalOutputModes.apply(item.output.output_mode)
    option: Any = getattr(jvm.scala, "None$")
    random_id = jvm.java.util.UUID.randomUUID()
    watermark = getattr(streaming.runtime, "WatermarkPropagator$")
    defaults = [getattr(execution, f"$lessinit$greater$default${n}")() for n in (12, 13, 14, 15)]
    execution(
        java_session,
        frame._jdf.queryExecution().analyzed(),
        mode,
        f"file://{state}",
        random_id,
        random_id,
        batch,
        getattr(option, "MODULE$"),
        streaming.checkpointing.OffsetSeqMetadata.apply(metadata),
        getattr(watermark, "MODULE$").noop(),
        True,
        *defaults,
    ).executedPlan()
