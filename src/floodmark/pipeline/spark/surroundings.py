"""The settings that Spark already has before we start it: from spark-submit, or from files.

Called by `session.py`, so that its own defaults never replace them. Under spark-submit the JVM is
running and is asked. Otherwise they come from spark-defaults.conf and PYSPARK_SUBMIT_ARGS, which
PySpark itself passes on when it starts the JVM.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from floodmark.pipeline.errors import PipelineError

# Set by spark-submit for the Python process it starts.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
# Options of spark-submit, and the settings they stand for.
_OPTIONS = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--deploy-mode": "spark.submit.deployMode",
    "--driver-memory": "spark.driver.memory",
    "--driver-cores": "spark.driver.cores",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--driver-class-path": "spark.driver.extraClassPath",
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--num-executors": "spark.executor.instances",
    "--total-executor-cores": "spark.cores.max",
    "--jars": "spark.jars",
    "--packages": "spark.jars.packages",
    "--repositories": "spark.jars.repositories",
    "--archives": "spark.archives",
    "--files": "spark.files",
    "--queue": "spark.yarn.queue",
}


def is_submitted(environment: Mapping[str, str]) -> bool:
    """Whether spark-submit started this process, so that its JVM must be used."""
    return _SUBMITTED in environment


def surrounding_settings(environment: Mapping[str, str]) -> dict[str, str]:
    if is_submitted(environment):
        return _settings_of_jvm()
    found = _defaults_file(environment)
    if environment.get("MASTER"):
        found["spark.master"] = environment["MASTER"]
    return found | parse_submit_arguments(environment.get("PYSPARK_SUBMIT_ARGS", ""))


def below_submitted(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Settings of a file, without those that a spark-submit around us decides."""
    if not is_submitted(environment):
        return dict(settings)
    around = surrounding_settings(environment)
    return {name: value for name, value in settings.items() if name not in around}


def _settings_of_jvm() -> dict[str, str]:
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _defaults_file(environment: Mapping[str, str]) -> dict[str, str]:
    folder = environment.get("SPARK_CONF_DIR")
    home = environment.get("SPARK_HOME")
    if folder is None and home is None:
        return {}
    path = (Path(folder) if folder else Path(str(home)) / "conf") / "spark-defaults.conf"
    try:
        return parse_defaults(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path} could not be read: {error}") from error


def parse_defaults(text: str) -> dict[str, str]:
    """The lines of spark-defaults.conf: a name, then spaces, `=` or `:`, then the value."""
    found = {}
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith(("#", "!")):
            continue
        end = next((i for i, letter in enumerate(line) if letter in " \t=:"), len(line))
        value = line[end:].lstrip(" \t")
        if value.startswith(("=", ":")):
            value = value[1:].lstrip(" \t")
        found[line[:end]] = value
    return found


def parse_submit_arguments(text: str) -> dict[str, str]:
    """The settings in a command line of spark-submit."""
    found = {}
    words = shlex.split(text)
    for word, following in zip(words, [*words[1:], ""], strict=False):
        option, equals, value = word.partition("=")
        value = value if equals else following
        if option in ("--conf", "-c"):
            name, _, setting = value.partition("=")
            found[name] = setting
        elif option in _OPTIONS:
            found[_OPTIONS[option]] = value
    return found
