"""Kafka's own Java classes read our bytes and write the same; its error codes are ours."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from floodmark.wire.compiler import encode
from floodmark.wire.errors import ErrorCode
from floodmark.wire.schema import schema_of
from kit.jars import KAFKA_3, KAFKA_4
from kit.java_program import run_java
from wire_kit.classes import api_classes, class_versions, internal_classes
from wire_kit.kafka_definitions import ONLY_IN_KAFKA_3, message_jars
from wire_kit.samples import nulls, sample

ORACLE = Path(__file__).parents[2] / "wire_kit" / "WireOracle.java"

PACKAGES = {
    "classic_groups": "org.apache.kafka.coordinator.group.generated",
    "consumer_groups": "org.apache.kafka.coordinator.group.generated",
    "transaction_log": "org.apache.kafka.coordinator.transaction.generated",
}


def java_name(cls: type) -> str:
    package = PACKAGES.get(cls.__module__.rpartition(".")[2], "org.apache.kafka.common.message")
    return f"{package}.{cls.__name__}{'' if schema_of(cls).api_key is None else 'Data'}"


def encodings(kafka_version: str) -> Iterator[tuple[str, int, str]]:
    for cls in (*api_classes(), *internal_classes()):
        if (schema_of(cls).api_key in ONLY_IN_KAFKA_3) == (kafka_version == KAFKA_3):
            for version in class_versions(cls):
                messages: list[Any] = [cls(), sample(cls, version), nulls(cls, version)]
                for message in messages:
                    data = encode(message, version).hex()
                    if data:
                        yield java_name(cls), version, data


@pytest.mark.java
@pytest.mark.parametrize("kafka_version", [KAFKA_3, KAFKA_4])
def test_kafka_reads_our_bytes_and_writes_the_same(kafka_version: str, tmp_path: Path) -> None:
    sent = list(encodings(kafka_version))
    questions, answers = tmp_path / "questions", tmp_path / "answers"
    questions.write_text("".join(f"{name} {version} {data}\n" for name, version, data in sent))
    run_java(ORACLE, message_jars(kafka_version), str(questions), str(answers))
    received = answers.read_text().splitlines()
    differing = [
        (name, version, data, answer)
        for (name, version, data), answer in zip(sent, received, strict=True)
        if data != answer
    ]
    assert not differing


@pytest.mark.java
def test_error_codes_are_those_of_kafka() -> None:
    listed = run_java(ORACLE, message_jars(KAFKA_4)).splitlines()
    ours = [f"{code.value} {code.name} {str(code.retriable).lower()}" for code in ErrorCode]
    assert ours == listed


def test_an_unknown_error_code_is_an_unknown_server_error() -> None:
    assert ErrorCode.of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert ErrorCode.of(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.NONE == 0
    assert all(code.message for code in ErrorCode)
