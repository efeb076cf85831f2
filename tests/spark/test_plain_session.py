"""A session that a user made without us, with nothing set, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from kit.broker import Broker
from kit.tools import require_tool
from kit.topics import fill_topic, make_topic

SCRIPT = """
import sys
from pathlib import Path
from pyspark import SparkFiles
from pyspark.sql import SparkSession
from floodmark.pipeline import register
from floodmark.pipeline.datasource.batch_writers import at_least_once, exactly_once

broker, topic, checkpoint = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
register(spark)
manager = spark._jsparkSession.sessionState().dataSourceManager()
python = manager.lookupDataSource("floodmark").dataSourceCls().pythonExec()
assert Path(python).parent == Path(SparkFiles.getRootDirectory()), python
assert spark.sparkContext.pythonExec == "python3"
options = {"kafka.bootstrap.servers": broker, "subscribe": topic}
assert spark.read.format("floodmark").options(**options).load().count() == 20
frame = spark.range(5).selectExpr("CAST(id AS STRING) AS value")
options = {"kafka.bootstrap.servers": broker, "topic": topic}
frame.write.format("floodmark").options(**options).mode("append").save()
options = {"kafka.bootstrap.servers": broker, "subscribe": topic, "startingOffsets": "earliest"}
stream = spark.readStream.format("floodmark").options(**options).load().writeStream
query = stream.format("noop").option("checkpointLocation", checkpoint)
query = query.trigger(availableNow=True).start()
query.awaitTermination()
assert sum(progress["numInputRows"] for progress in query.recentProgress) == 25
target = {"kafka.bootstrap.servers": broker, "topic": topic + "-out"}
rows = spark.readStream.format("floodmark").options(**options).load().select("key", "value")
for name, write in {
    "once": exactly_once(query=topic, options=target),
    "repeated": at_least_once(options=target),
}.items():
    copy = rows.writeStream.foreachBatch(write).trigger(availableNow=True)
    copy.option("checkpointLocation", f"{checkpoint}-{name}").start().awaitTermination()
options |= {"subscribe": topic + "-out"}
assert spark.read.format("floodmark").options(**options).load().count() == 50
spark.stop()
assert not Path(python).exists()
"""


def test_register_is_enough_where_the_path_has_another_python_and_nothing_is_set(
    broker: Broker, topic: str, checkpoint: str, tmp_path: Path
) -> None:
    require_tool("java")
    make_topic(broker.bootstrap, topic, partitions=2)
    fill_topic(broker.bootstrap, topic, [(b"%d" % i, b"v") for i in range(20)])
    wrong = tmp_path / "bin" / "python3"
    wrong.parent.mkdir()
    wrong.write_text("#!/bin/sh\necho 'this is not the Python that was meant' >&2\nexit 1\n")
    wrong.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_")}
    environment["PATH"] = f"{wrong.parent}{os.pathsep}{environment['PATH']}"
    environment["TMPDIR"] = str(tmp_path)
    command = [sys.executable, "-c", SCRIPT, broker.bootstrap, topic, checkpoint]
    outcome = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert outcome.returncode == 0, outcome.stderr
