"""Kafka's own message definitions, read from its jars and put into the form of our schemas.

The jars are fetched by Maven and never become part of the project.
"""

import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import LAST_VERSION, ZERO_UUID, parse_versions
from kit.jars import KAFKA_3, KAFKA_4, jars

ONLY_IN_KAFKA_3 = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
}

ARTIFACTS = {
    KAFKA_3: ["kafka-clients"],
    KAFKA_4: ["kafka-clients", "kafka-group-coordinator", "kafka-transaction-coordinator"],
}


def require_maven() -> None:
    if shutil.which("mvn") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("Maven is missing, and CI must compare with Kafka's definitions")
        pytest.skip("Maven is needed to fetch Kafka's jars")


def message_jars(kafka_version: str) -> Path:
    """The folder of jars that hold the release's message classes and definitions."""
    require_maven()
    return jars(*(f"org.apache.kafka:{name}:{kafka_version}" for name in ARTIFACTS[kafka_version]))


@cache
def definitions(kafka_version: str) -> dict[str, dict[str, Any]]:
    """Definitions by message name."""
    folder = message_jars(kafka_version)
    found = {}
    for name in ARTIFACTS[kafka_version]:
        with zipfile.ZipFile(folder / f"{name}-{kafka_version}.jar") as jar:
            for path in jar.namelist():
                if re.fullmatch(r"common/message/\w+\.json", path):
                    text = re.sub(r"^\s*//.*$", "", jar.read(path).decode(), flags=re.MULTILINE)
                    definition = json.loads(text)
                    found[definition["name"]] = definition
    return found


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def fields_in(definition: dict[str, Any], version: int) -> list[Any]:
    """The fields of one version, nested ones inside, each as `describe` writes it."""
    structs = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
    _collect_structs(definition["fields"], structs)
    return _fields_in(definition["fields"], structs, version)


def _collect_structs(fields: list[dict[str, Any]], structs: dict[str, Any]) -> None:
    for field in fields:
        if "fields" in field:
            structs[field["type"].removeprefix("[]")] = field["fields"]
            _collect_structs(field["fields"], structs)


def _fields_in(fields: list[dict[str, Any]], structs: dict[str, Any], version: int) -> list[Any]:
    described = []
    for field in fields:
        if _within(field.get("versions") or field["taggedVersions"], version):
            element = field["type"].removeprefix("[]")
            nested = _fields_in(structs[element], structs, version) if element in structs else None
            described.append(
                {
                    "name": snake_case(field["name"]),
                    "type": re.sub(r"[A-Z]\w*", "struct", field["type"]),
                    "nullable": _within(field.get("nullableVersions", "none"), version),
                    "tag": field["tag"] if _within(field.get("taggedVersions"), version) else None,
                    "default": _default(field),
                    "fields": nested,
                }
            )
    return described


def absent_fields(definition: dict[str, Any], version: int) -> dict[str, bool]:
    """Fields that the version lacks, by dotted path, with whether they are ignorable."""
    structs = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
    _collect_structs(definition["fields"], structs)
    return dict(_absent_fields(definition["fields"], structs, version, ""))


def _absent_fields(
    fields: list[dict[str, Any]], structs: dict[str, Any], version: int, path: str
) -> Iterator[tuple[str, bool]]:
    for field in fields:
        name = path + snake_case(field["name"])
        element = field["type"].removeprefix("[]")
        if not _within(field.get("versions") or field["taggedVersions"], version):
            yield name, bool(field.get("ignorable"))
        elif element in structs:
            yield from _absent_fields(structs[element], structs, version, name + ".")


def _within(text: str | None, version: int) -> bool:
    if text is None or text == "none":
        return False
    first, last = parse_versions(text)
    return first <= version <= last <= LAST_VERSION


def _default(field: dict[str, Any]) -> Any:
    """Kafka's default as our schemas hold it; a JSON null is no default to Kafka's generator."""
    kind, text = field["type"], field.get("default")
    if text == "null" or kind == "records":
        return None
    if kind.startswith("[]"):
        return ()
    if kind == "bool":
        return str(text).lower() == "true"
    if kind == "float64":
        return float(text or 0)
    if "int" in kind:
        return int(str(text or 0), 0)
    return {"string": text or "", "bytes": b"", "uuid": ZERO_UUID}.get(kind, "empty")
