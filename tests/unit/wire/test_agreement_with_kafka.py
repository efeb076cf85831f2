"""Our definitions say what Kafka's say, field by field and version by version."""

from collections.abc import Iterator
from typing import Any

import pytest

from floodmark.wire.api_keys import FIRST_FLEXIBLE_VERSION, NEVER_FLEXIBLE, ApiKey
from floodmark.wire.internal.consumer_offsets import KEY_CLASSES, VALUE_CLASSES
from floodmark.wire.schema import Field, parse_versions, schema_of
from kit.jars import KAFKA_3, KAFKA_4
from wire_kit.classes import api_classes, class_versions, internal_classes
from wire_kit.kafka_definitions import ONLY_IN_KAFKA_3, absent_fields, definitions, fields_in

UNSTABLE = {"InitProducerIdRequest": 6, "InitProducerIdResponse": 6}
"""Versions that Kafka 4.3.0 defines but does not offer."""

ALL_CLASSES = [*api_classes(), *internal_classes()]


def source_of(cls: type) -> str:
    return KAFKA_3 if schema_of(cls).api_key in ONLY_IN_KAFKA_3 else KAFKA_4


def our_fields(cls: type, version: int) -> list[Any]:
    return [
        {
            "name": field.name,
            "type": type_of(field),
            "nullable": field.nullable_in(version),
            "tag": field.tag,
            "default": default_of(field),
            "fields": our_fields(field.element, version)
            if isinstance(field.element, type)
            else None,
        }
        for field in schema_of(cls).fields
        if field.exists_in(version)
    ]


def type_of(field: Field) -> str:
    if field.kind != "array":
        return field.kind
    return "[]struct" if isinstance(field.element, type) else f"[]{field.element}"


def default_of(field: Field) -> Any:
    return "empty" if field.kind == "struct" and field.default is not None else field.default


@pytest.mark.java
@pytest.mark.parametrize("cls", ALL_CLASSES, ids=lambda cls: cls.__name__)
def test_fields_are_those_of_kafka(cls: type) -> None:
    definition = definitions(source_of(cls))[cls.__name__]
    for version in class_versions(cls):
        assert our_fields(cls, version) == fields_in(definition, version), version


@pytest.mark.java
@pytest.mark.parametrize("cls", ALL_CLASSES, ids=lambda cls: cls.__name__)
def test_versions_are_those_of_kafka(cls: type) -> None:
    definition = definitions(source_of(cls))[cls.__name__]
    schema = schema_of(cls)
    first, last = parse_versions(definition["validVersions"])
    if last == UNSTABLE.get(cls.__name__):
        last -= 1
    assert schema.versions == (first, last)
    flexible = definition.get("flexibleVersions", "none")
    for version in class_versions(cls):
        assert schema.is_flexible(version) == (
            flexible != "none" and version >= parse_versions(flexible)[0]
        )


@pytest.mark.java
@pytest.mark.parametrize("cls", ALL_CLASSES, ids=lambda cls: cls.__name__)
def test_fields_of_other_versions_are_ignorable_as_in_kafka(cls: type) -> None:
    definition = definitions(source_of(cls))[cls.__name__]
    for version in class_versions(cls):
        theirs = absent_fields(definition, version)
        for name, ignorable in our_absent_fields(cls, version, ""):
            assert theirs[name] == ignorable, (version, name)


def our_absent_fields(cls: type, version: int, path: str) -> Iterator[tuple[str, bool]]:
    for field in schema_of(cls).fields:
        if not field.exists_in(version):
            yield path + field.name, field.ignorable
        elif isinstance(field.element, type):
            yield from our_absent_fields(field.element, version, f"{path}{field.name}.")


@pytest.mark.java
@pytest.mark.parametrize("cls", list(api_classes()), ids=lambda cls: cls.__name__)
def test_versions_that_kafka_3_9_has_too_are_the_same_there(cls: type) -> None:
    definition = definitions(KAFKA_3).get(cls.__name__)
    if definition is None:
        pytest.skip("newer than Kafka 3.9")
    first, last = parse_versions(definition["validVersions"])
    for version in class_versions(cls):
        if first <= version <= last:
            assert shapes(our_fields(cls, version)) == shapes(fields_in(definition, version))


def shapes(fields: list[Any]) -> list[Any]:
    """What the bytes depend on: names and defaults changed now and then."""
    return [
        (field["type"], field["nullable"], field["tag"], shapes(field["fields"] or []))
        for field in fields
    ]


@pytest.mark.java
def test_record_types_of_the_offsets_topic_are_those_of_kafka() -> None:
    for classes in (KEY_CLASSES, VALUE_CLASSES):
        for record_type, cls in classes.items():
            assert definitions(KAFKA_4)[cls.__name__]["apiKey"] == record_type


@pytest.mark.parametrize("cls", list(api_classes()), ids=lambda cls: cls.__name__)
def test_the_table_of_flexible_versions_matches_the_definitions(cls: type) -> None:
    schema = schema_of(cls)
    assert schema.api_key is not None
    first = NEVER_FLEXIBLE if schema.flexible is None else schema.flexible[0]
    assert FIRST_FLEXIBLE_VERSION[schema.api_key] == first


@pytest.mark.java
@pytest.mark.parametrize("api_key", list(ApiKey), ids=lambda key: key.name)
def test_api_keys_are_those_of_kafka(api_key: ApiKey) -> None:
    name = "".join(word.capitalize() for word in api_key.name.split("_")) + "Request"
    source = KAFKA_3 if api_key in ONLY_IN_KAFKA_3 else KAFKA_4
    assert definitions(source)[name]["apiKey"] == api_key
