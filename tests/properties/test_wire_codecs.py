"""Codecs of every message and version: what is written is read, by us and by kio alike.

Parameters come from the definitions, so a new message is covered as soon as it exists.
"""

import io
from collections.abc import Iterator
from typing import Any

import kio.index
import pytest
from hypothesis import given
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from floodmark.wire.compiler import decode, decode_exact, encode
from floodmark.wire.schema import schema_of
from wire_kit.classes import cases
from wire_kit.strategies import TAME_VALUES, messages, quick

CASES = cases()


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_a_decoded_message_equals_the_encoded_one(cls: type, version: int) -> None:
    @quick
    @given(messages(cls, version))
    def check(message: Any) -> None:
        data = encode(message, version)
        assert decode_exact(cls, memoryview(data), version) == message
        assert decode(cls, data + b"rest", version) == message

    check()


def kio_cases() -> Iterator[Any]:
    kinds: dict[str, Any] = {"request": EntityType.request, "response": EntityType.response}
    for case in CASES:
        cls, version = case.values
        schema = schema_of(cls)
        if schema.api_key is None or schema.kind is None:
            continue
        try:
            module = kio.index.load_payload_module(schema.api_key, version, kinds[schema.kind])
        except kio.index.KioIndexError:
            continue
        yield pytest.param(cls, version, getattr(module, cls.__name__), id=case.id)


@pytest.mark.parametrize(("cls", "version", "entity"), list(kio_cases()))
def test_kio_reads_our_bytes_and_writes_the_same(cls: type, version: int, entity: Any) -> None:
    read, write = entity_reader(entity), entity_writer(entity)

    @quick
    @given(messages(cls, version, TAME_VALUES))
    def check(message: Any) -> None:
        data = encode(message, version)
        theirs, size = read(data, 0)
        written = io.BytesIO()
        write(written, theirs)
        assert (written.getvalue(), size) == (data, len(data))

    check()
