"""The spark-submit command for a packaged pipeline, on each kind of cluster.

Called by `floodmark pipeline package`, which prints it, and `submit`, which runs it. The command
runs in the folder of the package. Spark starts the same Python command on the driver and on the
workers, so a driver on this machine needs `environment` there, too: a link to this environment.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

from floodmark.pipeline.errors import INSTALL_HINT, PipelineError
from floodmark.pipeline.spark.packing import ENVIRONMENT, MAIN_FILE, PIPELINE_FOLDER

PYTHON = f"./{ENVIRONMENT}/bin/python"


@dataclass(frozen=True)
class Submission:
    """A packaged pipeline and how to run it."""

    # Relative to the folder of the package, or addresses that a cluster can read.
    archive: str
    # The pipeline on this machine, which a driver here reads.
    path: Path
    main: str = MAIN_FILE
    arguments: Sequence[str] = ()
    conf: Mapping[str, str] = field(default_factory=dict)

    def command(self, master: str, deploy_mode: str | None = None) -> list[str]:
        mode = deploy_mode or ("client" if master.startswith("spark:") else "cluster")
        if mode == "cluster" and master.startswith("spark:"):
            raise PipelineError(
                "a standalone cluster does not run the driver of a Python program: use "
                "--deploy-mode client"
            )
        words = ["spark-submit", "--master", master, "--deploy-mode", mode]
        words += ["--archives", f"{self.archive}#{ENVIRONMENT}"]
        for name, value in {"spark.pyspark.python": PYTHON, **self.conf}.items():
            words += ["--conf", f"{name}={value}"]
        # The driver of a cluster has the archive, not this machine's files.
        path = str(self.path.resolve()) if mode == "client" else f"{ENVIRONMENT}/{PIPELINE_FOLDER}"
        return [*words, self.main, "pipeline", "run", path, *self.arguments]


def installed_spark() -> Path:
    """The Spark that PySpark brings."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise PipelineError(f"pipelines need pyspark, which is not installed: {INSTALL_HINT}")
    return Path(spec.origin).parent


def example_lines(submission: Submission, folder: Path) -> dict[str, str]:
    """A line to copy for each kind of cluster."""
    stored = "s3a://BUCKET/pipelines"
    remote = replace(
        submission,
        archive=f"{stored}/{submission.archive}",
        main=f"{stored}/{submission.main}",
        conf={"spark.kubernetes.container.image": "SPARK-IMAGE", **submission.conf},
    )
    here = f"cd {shlex.quote(str(folder))} && "
    return {
        "standalone": here + shlex.join(submission.command("spark://HOST:7077")),
        "YARN": here + shlex.join(submission.command("yarn")),
        "Kubernetes": shlex.join(remote.command("k8s://https://HOST:6443")),
    }
