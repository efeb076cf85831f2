"""The launcher that lets Spark's Python processes begin without compiling PySpark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from floodmark.pipeline.spark.worker_python import worker_python

SHOW_PATH = "import os, sys; print(os.environ['PYTHONPATH'], sys.executable, sys.argv[1])"


def spark_entries(home: Path | None = None) -> list[str]:
    import pyspark

    home = home or Path(pyspark.__file__).parent
    jar = next(home.glob("jars/spark-core_*.jar"))
    return [str(home / "python" / "lib" / "pyspark.zip"), str(jar)]


def run(command: str, python_path: list[str]) -> list[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(python_path)}
    arguments = [command, "-c", SHOW_PATH, "two words"]
    return subprocess.check_output(arguments, env=environment, text=True).strip().split(" ", 2)


def test_the_zipped_pyspark_is_taken_off_the_path_and_the_users_entries_stay(
    tmp_path: Path,
) -> None:
    launcher = worker_python({}, tmp_path)
    own = [str(tmp_path / "one"), str(tmp_path / "two")]
    shown = run(launcher, [*spark_entries(), *spark_entries(), *own])
    assert shown == [os.pathsep.join(own), sys.executable, "two words"]


def test_it_is_found_where_spark_names_the_installation_by_another_path(tmp_path: Path) -> None:
    """As with a virtual environment behind a link, which Spark resolves."""
    home = Path(spark_entries()[1]).parent.parent
    (tmp_path / "link").symlink_to(home, target_is_directory=True)
    launcher = worker_python({}, tmp_path)
    assert run(launcher, [*spark_entries(tmp_path / "link"), "mine"])[0] == "mine"


def test_a_path_that_is_not_sparks_is_left_alone(tmp_path: Path) -> None:
    launcher = worker_python({}, tmp_path)
    assert run(launcher, [str(tmp_path)])[0] == str(tmp_path)


def test_another_spark_than_the_installed_one_gets_plain_python(tmp_path: Path) -> None:
    assert worker_python({"SPARK_HOME": "/opt/spark"}, tmp_path) == sys.executable


def test_the_installed_spark_may_be_named_as_the_home(tmp_path: Path) -> None:
    home = str(Path(spark_entries()[1]).parent.parent)
    assert worker_python({"SPARK_HOME": home}, tmp_path) == str(tmp_path / "floodmark-python")


def test_bytecode_is_kept_for_the_session_where_none_exists_and_none_may_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if nothing had been compiled when PySpark was installed.
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "nothing here"))
    environment = {"PYTHONDONTWRITEBYTECODE": "1"}
    show = "import sys; print(sys.dont_write_bytecode, sys.pycache_prefix)"
    command = [worker_python(environment, tmp_path), "-c", show]
    shown = subprocess.check_output(command, env=os.environ | environment, text=True)
    assert shown.split() == ["False", str(tmp_path / "floodmark-bytecode")]
