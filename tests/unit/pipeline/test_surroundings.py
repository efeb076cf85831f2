"""Settings that Spark has already are kept, and our own defaults only fill the gaps."""

from pathlib import Path

import pytest

from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.spark import session
from floodmark.pipeline.spark.packing import write_rest
from floodmark.pipeline.spark.surroundings import (
    below_submitted,
    parse_defaults,
    parse_submit_arguments,
    surrounding_settings,
)

DEFAULTS = """
# a comment
spark.master            spark://host:7077
spark.driver.memory = 8g
spark.ui.enabled:true
spark.executor.extraJavaOptions  -Da=b -Dc=d
"""


def test_the_file_of_defaults_is_read_in_all_its_forms() -> None:
    assert parse_defaults(DEFAULTS) == {
        "spark.master": "spark://host:7077",
        "spark.driver.memory": "8g",
        "spark.ui.enabled": "true",
        "spark.executor.extraJavaOptions": "-Da=b -Dc=d",
    }


def test_the_options_of_spark_submit_are_read() -> None:
    text = "--master spark://a:1 --conf spark.x=1=2 -c 'spark.y=a b' --packages=p:q:1 pyspark-shell"
    assert parse_submit_arguments(text) == {
        "spark.master": "spark://a:1",
        "spark.x": "1=2",
        "spark.y": "a b",
        "spark.jars.packages": "p:q:1",
    }


def test_variables_stand_above_the_file_of_defaults(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS)
    found = surrounding_settings(
        {"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": "--master local[7] pyspark-shell"}
    )
    assert (found["spark.master"], found["spark.driver.memory"]) == ("local[7]", "8g")
    assert surrounding_settings({"SPARK_HOME": str(tmp_path)}) == {}


def test_our_defaults_do_not_replace_what_is_set() -> None:
    around = {"spark.driver.memory": "8g", "spark.sql.shuffle.partitions": "200"}
    wanted = session._settings(around, {"spark.jars": "a.jar"}, 2, is_local=True)
    assert not around.keys() & wanted.keys()
    assert wanted["spark.jars"] == "a.jar"
    assert wanted["spark.sql.session.timeZone"] == "UTC"
    # A number in the pipeline's own file is a decision, not a default.
    assert session._settings(around, {}, 5, is_local=True)["spark.sql.shuffle.partitions"] == "5"


def test_on_a_cluster_reads_are_planned_by_the_workers_python_which_must_exist_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "jupyter")
    monkeypatch.chdir(tmp_path)
    settings = {"spark.pyspark.python": "./environment/bin/python"}
    with pytest.raises(PipelineError, match="does not exist on this machine, where Spark plans"):
        session._needed(tmp_path, settings, is_local=False)
    write_rest(tmp_path)
    needed = session._needed(tmp_path, settings, is_local=False)
    assert needed["PYSPARK_PYTHON"] == "./environment/bin/python"
    assert needed["PYSPARK_DRIVER_PYTHON"] == "./environment/bin/python"


def test_a_setting_that_would_break_exactly_once_is_refused() -> None:
    with pytest.raises(PipelineError, match=r"spark\.sql\.adaptive\.enabled=true cannot be hon"):
        session.refuse_changed_pins({"spark.sql.adaptive.enabled": "true"})
    session.refuse_changed_pins({"spark.sql.adaptive.enabled": "False"})


def test_without_spark_submit_the_settings_of_a_file_all_count() -> None:
    assert below_submitted({"spark.a": "1"}, {}) == {"spark.a": "1"}
