"""Hessian2: values survive the way, and no bytes hurt the reader."""

import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floodmark.service.hessian import Decoder, HessianError, JavaClasses, JavaObject, dumps, loads
from floodmark.service.hessian.classes import java_class, java_name
from floodmark.service.hessian.encode import Encoded, Encoder
from floodmark.service.hessian.limits import MAX_CONTAINERS, MAX_DEPTH, MAX_ITEMS
from floodmark.service.hints import Hints
from floodmark.service.types import IntArray, LongArray
from kit.hessian_values import Color, Description, Item, classes, values


@dataclass
class Tagged:
    tags: list[str]
    scores: IntArray
    pages: LongArray
    more: list[str]


@given(values())
@settings(max_examples=120)
def test_values_come_back_as_they_were(value: Any) -> None:
    known = classes()
    assert Description().of(loads(dumps(value, known), known)) == Description().of(value)


@given(st.binary(max_size=200))
@settings(max_examples=500)
def test_random_bytes_are_a_value_or_refused(data: bytes) -> None:
    with contextlib.suppress(HessianError):
        Decoder(data, classes()).read()


@given(values(), st.data())
@settings(max_examples=120)
def test_damaged_values_are_a_value_or_refused(value: Any, data: st.DataObject) -> None:
    good = bytearray(dumps(value, classes()))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    del good[data.draw(st.integers(1, len(good))) :]
    with contextlib.suppress(HessianError):
        Decoder(bytes(good), classes()).read()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x58\x49\x7f\xff\xff\xff",  # a list of 2**31 - 1 items
        b"\x43\x01a\x49\x7f\xff\xff\xff",  # a class of 2**31 - 1 fields
        b"\x51\x95",  # a reference to nothing
        b"\x60",  # an object without a class
        b"\x4f\x8f",  # the class before the first
        b"\x72\x90",  # a type that was not named
        b"\x53\xff\xffab",  # a string that is longer than the message
        b"\x02\xff\xff",  # no UTF-8
        b"\x01\xe2\x82",  # a character cut short
        b"\x42\x00\x05ab",
        b"\x48\x78\x90\x5a",  # a list as a key
        b"\x4a\x7f\xff\xff\xff\xff\xff\xff\xff",  # a date in the year 292 million
        b"\x43\x14java.math.BigDecimal\x91\x05value\x60\x03one",
        b"\x43\x14java.math.BigInteger\x92\x06signum\x03mag\x60\x92\x71\x04[int\x91",  # a sign of 2
        b"\x40",
    ],
)
def test_broken_values_are_refused(data: bytes) -> None:
    with pytest.raises(HessianError):
        loads(data)


def test_one_list_may_stand_for_containers_of_several_java_types() -> None:
    known = JavaClasses()
    written = Hints(known, "dev.").of(Tagged)
    encoder = Encoder(known)
    nothing: list[Any] = []
    written.write(encoder, Tagged(nothing, nothing, nothing, nothing))
    head = b"\x43\x0adev.Tagged\x94\x04tags\x06scores\x05pages\x04more\x60"
    assert encoder.take() == head + b"\x78\x70\x04[int\x70\x05[long\x51\x91"


def test_depth_is_bounded() -> None:
    loads(b"\x79" * (MAX_DEPTH - 1) + b"\x78")
    with pytest.raises(HessianError, match="nested"):
        loads(b"\x79" * 100_000)
    with pytest.raises(HessianError, match="nested"):
        loads(b"\x43\x01a\x91\x01b" + b"\x60" * 100_000)
    endless: list[Any] = []
    for _ in range(100_000):
        endless = [endless]
    with pytest.raises(HessianError, match="nested"):
        dumps(endless)


def test_the_number_of_containers_is_bounded() -> None:
    with pytest.raises(HessianError, match="more than"):
        loads(b"\x57" + b"\x78" * (MAX_CONTAINERS + 1) + b"\x5a")


@pytest.mark.parametrize(
    "data",
    [
        b"\x57" + b"\x90" * (MAX_ITEMS + 1) + b"\x5a",
        b"\x58" + dumps(MAX_ITEMS + 1) + b"\x90" * (MAX_ITEMS + 1),
        b"\x7a" + (b"\x58" + dumps(1_500_000) + b"\x90" * 1_500_000) * 2,
    ],
    ids=["until the end", "of a length", "together"],
)
def test_the_number_of_items_is_bounded(data: bytes) -> None:
    with pytest.raises(HessianError, match="more than"):
        loads(data)


def test_many_class_definitions_in_a_row_do_not_nest() -> None:
    assert loads(b"\x43\x01a\x90" * 9_000 + b"N") is None


def test_a_string_ends_where_its_last_character_ends() -> None:
    """The byte after it may look like a continuation byte: 0x90 is the number 0."""
    encoder = Encoder()
    for value in ("é", 0, "éa", -16, "😀", 47, "日本", 0):
        encoder.write(value)
    decoder = Decoder(encoder.take())
    assert [decoder.read() for _ in range(8)] == ["é", 0, "éa", -16, "😀", 47, "日本", 0]


def test_four_byte_characters_of_other_writers_are_read() -> None:
    assert loads(b"\x03a" + "😀".encode()) == "a😀"


def test_surrogates_take_three_bytes_each() -> None:
    assert dumps("😀") == b"\x02\xed\xa0\xbd\xed\xb8\x80"


def test_doubles_in_thousandths_are_java_s() -> None:
    assert loads(b"\x5f\x00\x00\x2f\xda") == 12.25


def test_a_cycle_is_built() -> None:
    item = Item(name="a")
    item.next = item
    again = loads(dumps(item, classes()), classes())
    assert isinstance(again, Item) and again.next is again


def test_objects_of_unknown_classes_keep_their_fields() -> None:
    sent = JavaObject("dev.Unknown", {"unitPrice": 5, "tags": ["a"]})
    got = loads(dumps(sent))
    assert isinstance(got, JavaObject)
    assert (got.java_class, got.fields) == ("dev.Unknown", {"unitPrice": 5, "tags": ["a"]})


def test_unknown_fields_are_dropped_and_missing_ones_get_their_default() -> None:
    sent = JavaObject("HessianPeer$Item", {"name": "x", "later": 1})
    assert loads(dumps(sent), classes()) == Item(name="x")


def test_old_writers_objects_as_maps_are_read() -> None:
    data = b"\x4d\x10HessianPeer$Item\x04name\x01x\x5a"
    assert loads(data, classes()) == Item(name="x")
    assert loads(b"\x4d\x11HessianPeer$Color\x04name\x03RED\x5a", classes()) is Color.RED


def test_an_unknown_enum_constant_is_refused() -> None:
    sent = JavaObject("HessianPeer$Color", {"name": "MAUVE"})
    with pytest.raises(HessianError, match="MAUVE"):
        loads(dumps(sent), classes())


def test_a_declared_exception_keeps_class_message_and_fields() -> None:
    @java_class("dev.NoSuchOrder")
    class NoSuchOrder(Exception):
        order_id: int

        def __init__(self, order_id: int) -> None:
            super().__init__(f"no order {order_id}")
            self.order_id = order_id

    got = loads(dumps(NoSuchOrder(7)))
    assert isinstance(got, JavaObject)
    assert got.java_class == "dev.NoSuchOrder"
    assert (got.fields["detailMessage"], got.fields["orderId"]) == ("no order 7", 7)


def test_other_exceptions_become_the_nearest_of_java() -> None:
    def raised() -> Exception:
        try:
            raise ValueError("not so")
        except ValueError as error:
            return error

    got = loads(dumps(raised()))
    assert isinstance(got, JavaObject)
    assert got.java_class == "java.lang.IllegalArgumentException"
    assert got.fields["stackTrace"][0].fields["methodName"] == "raised"


def test_values_without_a_form_are_refused_by_name() -> None:
    with pytest.raises(HessianError, match=r"builtins\.complex"):
        dumps([1j])


def test_subclasses_of_plain_types_are_written_as_those() -> None:
    class Level(IntEnum):
        HIGH = 3

    with pytest.raises(HessianError, match="java_class"):
        dumps(Level.HIGH)
    assert loads(dumps(type("Name", (str,), {})("x"))) == "x"


def test_encoded_values_are_copied_in() -> None:
    known = classes()
    encoder = Encoder(known)
    encoder.write(Encoded(dumps(Item(name="kept"), known)))
    assert loads(encoder.take(), known) == Item(name="kept")


def test_slots_and_frozen_classes_are_built() -> None:
    @dataclass(frozen=True, slots=True)
    class Point:
        x_axis: int
        y_axis: int = 5

    known = JavaClasses()
    known.add(Point, "dev.Point")
    assert loads(dumps(Point(1, 2), known), known) == Point(1, 2)
    assert loads(dumps(JavaObject("dev.Point", {"xAxis": 1})), known) == Point(1)


def test_a_java_class_has_one_python_class() -> None:
    known = JavaClasses()
    known.add(Item, "dev.Item")
    with pytest.raises(HessianError, match="both stand"):
        known.add(Color, "dev.Item")


def test_naive_datetimes_count_as_utc() -> None:
    assert loads(dumps(datetime(2026, 1, 2))) == datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("python", "java"),
    [("unit_price", "unitPrice"), ("name", "name"), ("_a_b", "_aB"), ("x_", "x")],
)
def test_java_names(python: str, java: str) -> None:
    assert java_name(python) == java
