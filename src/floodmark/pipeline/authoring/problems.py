"""What is wrong with a declaration by itself, before Spark or a broker are asked.

Called by `declarations.py` as soon as a source or output is declared.
"""

from __future__ import annotations

import re

from floodmark.pipeline.authoring.declared import Output, Source

FORMATS = ("json", "csv", "raw", "avro", "protobuf")
OUTPUT_MODES = ("append", "update", "complete")
DELIVERIES = ("exactly_once", "at_least_once")
# Spark reads these only as a whole.
_NEVER_STREAMS = ("jdbc",)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def problem_of_source(source: Source) -> str | None:
    if not _NAME.fullmatch(source.name):
        return f"{source.name!r} is not a valid parameter name"
    if source.watermark is not None and not _is_pair_of_texts(source.watermark):
        return (
            f"the watermark of {source.name} is {source.watermark!r}: give the column and how late "
            'its rows may be, such as watermark=("ordered_at", "10 seconds")'
        )
    if source.reads_topics:
        return _problem_of_topics(source) or _problem_of_dead_letters(source)
    return _problem_of_spark_source(source)


def _problem_of_topics(source: Source) -> str | None:
    name = source.name
    if source.topic and source.pattern:
        return f"source {name} has both topic and pattern: choose one"
    if source.format not in FORMATS:
        return f"format {source.format!r} is unknown: use one of {', '.join(FORMATS)}"
    if source.schema is None and source.format != "raw":
        example = 'schema="id STRING, amount DOUBLE"'
        return f"source {name} needs a schema to read {source.format}, such as {example}"
    if source.is_table and source.key is None:
        return f"lookup {name} needs its key: name the column that a record's key stands for"
    return None


def _problem_of_dead_letters(source: Source) -> str | None:
    if source.dead_letters is None:
        return None
    if source.format == "raw":
        return (
            f"raw rows are not parsed, so {source.name} has no dead letters: remove dead_letters, "
            "or choose another format"
        )
    if source.dead_letters in source.topic.split(","):
        return (
            f"the dead letters of {source.name} would go back to {source.dead_letters} in an "
            "endless loop: name another topic"
        )
    return None


def _problem_of_spark_source(source: Source) -> str | None:
    name, format = source.name, source.format
    if format in ("raw", "protobuf") or (format in FORMATS and not source.options):
        return (
            f"source {name} does not say what it reads: name a topic or a pattern, or a source of "
            'Spark such as format="rate"'
        )
    topics_only = {
        "dead_letters": source.dead_letters,
        "metadata": source.metadata,
        "headers": source.headers,
        "key": source.key,
        "starting_offsets": source.starting_offsets != "earliest",
    }
    for option in (option for option, value in topics_only.items() if value):
        return f"{option} is for topics: source {name} reads Spark's format {format}, so remove it"
    if format.lower() in _NEVER_STREAMS and not source.is_table:
        return (
            f"Spark cannot read {format} as a stream: declare {name} with pipeline.lookup, which "
            "reads it for every batch"
        )
    return None


def problem_of_output(output: Output) -> str | None:
    if output.spark_format in ("json", "raw") and not _has_path(output):
        return (
            f"{output.name} does not say where its rows go: name a topic, or a Spark format "
            'such as format="console"'
        )
    for value, allowed in (
        (output.output_mode, OUTPUT_MODES),
        (output.delivery, DELIVERIES),
        (output.value_format or "json", ("json", "raw")),
    ):
        if value not in allowed:
            return f"{value!r} is invalid: use one of {', '.join(allowed)}"
    return _problem_of_table(output) or _problem_of_keys(output)


def _has_path(output: Output) -> bool:
    return bool(output.path or output.catalog_table or "path" in output.options)


def _problem_of_table(output: Output) -> str | None:
    if output.catalog_table is not None and output.path is not None:
        return (
            f"{output.name} has both a path and the catalog's table {output.catalog_table}: choose "
            "one (a table's location belongs to the catalog)"
        )
    return None


def _problem_of_keys(output: Output) -> str | None:
    if output.spark_format == "jdbc":
        return _problem_of_jdbc(output)
    if output.topic is not None and len(output.key_columns) > 1:
        return (
            f"a record has one key, but {output.name} names {', '.join(output.key_columns)}: "
            "combine them into one column"
        )
    if output.topic is None and output.key_columns:
        return f"key is for topics and jdbc: {output.name} writes {output.spark_format}"
    if output.latest_by is not None:
        return f"latest_by is for jdbc: {output.name} does not write to a database"
    return None


def _problem_of_jdbc(output: Output) -> str | None:
    given = {name.lower() for name in output.options}
    for wanted, example in (("url", "jdbc:postgresql://host/shop"), ("dbtable", "revenue")):
        if wanted not in given:
            return (
                f"{output.name} writes jdbc but has no option {wanted}: add it to options, such as "
                f'"{wanted}": "{example}"'
            )
    if output.latest_by is not None and not output.key_columns:
        return f"latest_by chooses among rows of one key: {output.name} also needs key"
    if output.output_mode != "append" and not output.key_columns:
        return (
            f"{output.name} writes rows again when they change ({output.output_mode}): name the "
            "columns that identify a row with key, or use append"
        )
    return None


def _is_pair_of_texts(value: object) -> bool:
    return (
        isinstance(value, (tuple, list))
        and len(value) == 2
        and all(isinstance(part, str) for part in value)
    )
