"""What sources and sinks may be declared, and which mistakes are told at once with their line."""

from typing import Any

import pytest

from floodmark.pipeline import Pipeline, PipelineError


@pytest.fixture
def pipeline() -> Pipeline:
    return Pipeline("shop")


def test_a_source_reads_several_topics_a_pattern_or_one_of_sparks_sources(
    pipeline: Pipeline,
) -> None:
    several = pipeline.source("several", topic=["a", "b"], format="raw")
    pattern = pipeline.source("pattern", pattern="orders-.*", format="raw")
    rate = pipeline.source("rate", format="rate", options={"rowsPerSecond": 1})
    assert several.topic == "a,b"
    assert [s.reads_topics for s in (several, pattern, rate)] == [True, True, False]


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({}, "does not say what it reads: name a topic"),
        ({"topic": "a", "pattern": "b", "format": "raw"}, "both topic and pattern"),
        ({"format": "jdbc", "options": {"url": "u"}}, "declare s with pipeline.lookup"),
        ({"format": "rate", "metadata": True}, "metadata is for topics"),
        ({"format": "rate", "dead_letters": "d"}, "dead_letters is for topics"),
        ({"format": "rate", "headers": True}, "headers is for topics"),
        ({"format": "rate", "starting_offsets": "latest"}, "starting_offsets is for topics"),
        (
            {"topic": ["a", "b"], "schema": "id STRING", "dead_letters": "b"},
            "would go back to b in an endless loop",
        ),
    ],
)
def test_a_source_that_cannot_be_is_refused(
    pipeline: Pipeline, declared: dict[str, Any], message: str
) -> None:
    with pytest.raises(PipelineError, match=rf"test_sources_and_sinks.py:\d+: .*{message}"):
        pipeline.source("s", **declared)


def test_a_lookup_of_a_topic_needs_its_key(pipeline: Pipeline) -> None:
    with pytest.raises(PipelineError, match="lookup products needs its key"):
        pipeline.lookup("products", topic="products", schema="id STRING")
    pipeline.lookup("prices", format="jdbc", options={"url": "u", "dbtable": "prices"})


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"format": "jdbc"}, "has no option url"),
        ({"format": "jdbc", "options": {"url": "u"}}, "has no option dbtable"),
        (
            {"format": "jdbc", "output_mode": "update", "options": {"url": "u", "dbtable": "t"}},
            "name the columns that identify a row with key",
        ),
        (
            {"format": "jdbc", "latest_by": "at", "options": {"url": "u", "dbtable": "t"}},
            "also needs key",
        ),
        ({"topic": "t", "key": ["a", "b"]}, "a record has one key"),
        ({"topic": "t", "latest_by": "a"}, "latest_by is for jdbc"),
        ({"format": "console", "key": "a"}, "key is for topics and jdbc"),
    ],
)
def test_a_sink_that_cannot_be_is_refused(
    pipeline: Pipeline, declared: dict[str, Any], message: str
) -> None:
    def out(rows: object) -> object:
        return rows

    with pytest.raises(PipelineError, match=rf"test_sources_and_sinks.py:\d+: .*{message}"):
        pipeline.sink(**declared)(out)


def test_a_table_has_a_path_or_a_name(pipeline: Pipeline) -> None:
    @pipeline.table(name="shop.archive")
    def archive(rows: object) -> object:
        return rows

    assert pipeline.outputs["archive"].catalog_table == "shop.archive"
    assert pipeline.outputs["archive"].path is None
    with pytest.raises(PipelineError, match="both a path and the catalog's table"):
        pipeline.table("folder", name="shop.other")(lambda rows: rows)


def test_a_batch_sink_needs_parentheses(pipeline: Pipeline) -> None:
    def out(rows: object, batch_id: int) -> None: ...

    with pytest.raises(PipelineError, match=r"write @pipeline.batch_sink\(\), with the paren"):
        pipeline.batch_sink(out)  # type: ignore[arg-type]
