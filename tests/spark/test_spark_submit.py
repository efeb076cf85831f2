"""Under spark-submit, its master and its settings count, not our defaults."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from kit.tools import require_tool

# What `floodmark pipeline run` does first, then what it would run on.
SCRIPT = """
import json, sys
from floodmark.pipeline.spark.session import spark_session

names = sys.argv[1:]
with spark_session("mine", settings={"spark.own": "1"}) as spark:
    found = {name: spark.conf.get(name, None) for name in names}
    print("found " + json.dumps({"master": spark.sparkContext.master, **found}))
    print("rows", spark.range(3).count())
"""
GIVEN = {
    "spark.sql.shuffle.partitions": "7",
    "spark.driver.memory": "600m",
    "spark.sql.session.timeZone": "Europe/Berlin",
}


@pytest.mark.timeout(200)
def test_a_master_and_settings_of_spark_submit_are_honoured(tmp_path: Path) -> None:
    require_tool("java")
    (tmp_path / "main.py").write_text(SCRIPT)
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--master", "local[3]"]
    for name, value in GIVEN.items():
        command += ["--conf", f"{name}={value}"]
    names = [*GIVEN, "spark.own", "spark.sql.adaptive.enabled"]
    outcome = subprocess.run(
        [*command, str(tmp_path / "main.py"), *names],
        capture_output=True,
        text=True,
        env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
        check=False,
        timeout=180,
    )
    assert outcome.returncode == 0, outcome.stderr
    lines = dict(line.split(" ", 1) for line in outcome.stdout.splitlines() if " " in line)
    assert json.loads(lines["found"]) == {
        "master": "local[3]",
        **GIVEN,
        "spark.own": "1",
        # A repeated batch must be split as before, whatever is around.
        "spark.sql.adaptive.enabled": "false",
    }
    assert lines["rows"] == "3"
