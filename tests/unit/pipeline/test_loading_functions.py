"""Files that need Spark to load: functions of columns with types in words, columns at the top."""

from pathlib import Path

import pytest

from floodmark.pipeline import PipelineError
from floodmark.pipeline.authoring.loading import load_pipeline

FUNCTIONS = """import pandas as pd
from pyspark.sql.functions import pandas_udf, udf

@udf("long")
def twice(number):
    return 2 * number

@pandas_udf("long")
def thrice(numbers: pd.Series) -> pd.Series:
    return 3 * numbers

"""
HEAD = """from floodmark.pipeline import Pipeline
pipeline = Pipeline("functions", shuffle_partitions=3, spark_ui_enabled="true")
"""


@pytest.mark.parametrize("text", [HEAD + FUNCTIONS, FUNCTIONS + HEAD])
def test_a_file_with_typed_functions_is_known_by_name_before_spark_runs(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "pipeline.py"
    path.write_text(text)
    loaded = load_pipeline(path)
    assert (loaded.name, loaded.shuffle_partitions) == ("functions", 3)
    assert loaded.spark_settings == {"spark.ui.enabled": "true"}
    assert loaded.unfinished is not None


def test_a_computed_name_is_told_with_its_line_if_the_file_needs_spark(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.py"
    path.write_text(FUNCTIONS + HEAD.replace('"functions"', "'a' + 'b'"))
    with pytest.raises(PipelineError, match=r"pipeline.py:\d+: this file needs Spark to load"):
        load_pipeline(path)


def test_a_mistake_of_the_author_is_told_without_spark(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.py"
    path.write_text(HEAD + "no_such_name\n")
    with pytest.raises(PipelineError, match=r"pipeline.py:3: could not load the file: NameError"):
        load_pipeline(path)
