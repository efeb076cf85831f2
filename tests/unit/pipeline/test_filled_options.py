"""The options of an output and what Spark's exceptions say, as the runner gets them."""

from typing import Any, cast

import pytest

from floodmark.pipeline import Pipeline
from floodmark.pipeline.authoring.building import Builder, Built, _Step
from floodmark.pipeline.errors import short_text


def built(pipeline: Pipeline) -> Built:
    """What becomes of the only output; its rows are of no account."""
    builder = Builder(cast(Any, None), pipeline, "127.0.0.1:1")
    (output,) = pipeline.outputs.values()
    return builder._built(output, cast(Any, None), _Step(builder, output.name))


@pytest.mark.parametrize("name", ["path", "PATH"])
def test_what_a_setting_says_is_not_filled_again(name: str) -> None:
    pipeline = Pipeline("p")
    pipeline.settings["folder"] = "/tables/{date}"
    pipeline.sink(format="parquet", options={name: "{folder}"})(lambda: None)
    assert built(pipeline).table == "/tables/{date}"


def test_options_of_an_output_are_found_whatever_their_capitals() -> None:
    pipeline = Pipeline("p")
    given = {"Kafka.Bootstrap.Servers": "127.0.0.1:2"}
    pipeline.sink(topic="out", options=given)(lambda: None)
    assert built(pipeline).options == {**given, "topic": "out"}


class SilentJavaException:
    def getMessage(self) -> None:
        return None

    def toString(self) -> str:
        return "java.lang.NullPointerException"


class JavaProblem(Exception):
    """As Py4J raises it."""

    java_exception = SilentJavaException()


def test_a_java_exception_without_a_message_is_told_by_its_class() -> None:
    assert short_text(JavaProblem()) == "java.lang.NullPointerException"
