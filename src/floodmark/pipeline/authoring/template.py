"""The pipeline that `floodmark pipeline new` writes: small, commented, and ready to run."""

from __future__ import annotations

import re
from pathlib import Path

from floodmark.pipeline.errors import PipelineError

_PIPELINE = '''"""Counts words. Change it into what you need.

    floodmark pipeline check {folder}         looks for mistakes, runs nothing
    floodmark pipeline run {folder} --once    processes what is there, then ends
    floodmark pipeline run {folder}           goes on until Ctrl-C
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from floodmark.pipeline import Pipeline

pipeline = Pipeline("{name}")

# A topic as a stream. With format="json" and a schema such as "id STRING, amount DOUBLE" the rows
# have those columns; raw rows have key, value, topic, partition, offset and timestamp.
pipeline.source("lines", topic="{{words_topic}}", format="raw")


@pipeline.temporary_view
def words(lines: DataFrame) -> DataFrame:
    """One row per word; the parameter names the source."""
    text = F.lower(F.col("value").cast("string"))
    return lines.select(F.explode(F.split(text, r"\\s+")).alias("word")).where("word != ''")


@pipeline.sink(topic="{{counts_topic}}", key="word", output_mode="update")
def counts(words: DataFrame) -> DataFrame:
    """The count of each word, written whenever it changes, exactly once."""
    return words.groupBy("word").count()
'''

_TEST = '''"""Runs the pipeline on a few rows, with a broker and a Spark of its own.

    pytest {folder}
"""

from pathlib import Path

HERE = Path(__file__).parent


def test_words_are_counted(floodmark_pipeline):
    pipeline = floodmark_pipeline(HERE)
    pipeline.feed("lines", ["the river rises", "The bank"])
    pipeline.run()
    assert pipeline.latest("counts")["the"] == {{"word": "the", "count": 2}}
'''

_SETTINGS = """# Settings fill the {{names}} in the texts of pipeline.py.
[settings]
words_topic = "{name}-words"
counts_topic = "{name}-counts"

# `--env production` puts these over the ones above; --set NAME=VALUE stands above both.
[environments.production]
"""


def write_template(folder: Path) -> Path:
    """Creates the folder with a pipeline, its settings and a test. Never overwrites anything."""
    name = folder.name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise PipelineError(
            f"{name!r} is not a valid pipeline name: use letters, digits, '.', '_' and '-'"
        )
    if folder.exists() and any(folder.iterdir()):
        raise PipelineError(f"{folder} exists and is not empty: choose another name")
    folder.mkdir(parents=True, exist_ok=True)
    text = _PIPELINE.format(name=name, folder=folder)
    (folder / "pipeline.py").write_text(text, encoding="utf-8")
    (folder / "pipeline.toml").write_text(_SETTINGS.format(name=name), encoding="utf-8")
    test = f"test_{re.sub(r'[^A-Za-z0-9_]', '_', name)}.py"
    (folder / test).write_text(_TEST.format(folder=folder), encoding="utf-8")
    return folder
