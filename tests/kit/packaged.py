"""A pipeline as `floodmark pipeline package` leaves it: the line that it prints, to be run."""

import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark

# Large packages that only the tests of this house need.
_NOT_NEEDED = [
    *("6ec57*", "cfnlint*", "sympy*", "boto*", "moto*", "mypy*", "kio*", "cryptography*"),
    *("confluent*", "hypothesis*", "networkx*", "kafka*", "aiokafka*", "pygments*"),
    *("grpc*", "grimp*", "mpmath*", "pip*", "pydantic*", "setuptools*", "uvloop*"),
]
_FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_CONF = {
    "spark.driver.extraJavaOptions": _FAST_START,
    "spark.executor.extraJavaOptions": _FAST_START,
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
}


def packaged_line(
    pipeline: Path, folder: Path, master: str, root: str, conf: Mapping[str, str] | None = None
) -> list[str]:
    """The line for a standalone cluster, with this cluster's names and PySpark's spark-submit.

    It must run in `folder`. `root` takes the place of the bucket for checkpoints.
    """
    command = [str(Path(sys.executable).with_name("floodmark")), "pipeline", "package"]
    command += [str(pipeline), "--to", str(folder)]
    for pattern in _NOT_NEEDED:
        command += ["--exclude", pattern]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    printed = said.stdout.split("standalone:\n", 1)[1].splitlines()[0]
    place, line = printed.split(" && spark-submit --master spark://HOST:7077 ")
    assert place.split() == ["cd", str(folder)]
    own = [f"{name}={value}" for name, value in {**_CONF, **(conf or {})}.items()]
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    options = [word for pair in own for word in ("--conf", pair)]
    words = shlex.split(line.replace("s3a://BUCKET", root))
    # The script finds its own folder only where a shell has activated the environment.
    home = f"SPARK_HOME={Path(pyspark.__file__).parent}"
    return ["env", home, submit, "--master", master, *options, *words]
