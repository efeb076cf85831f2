"""Type hints as Java types, and the sources that consumers compile against."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from floodmark.service.errors import InterfaceError
from floodmark.service.hessian import Encoder, JavaClasses
from floodmark.service.hessian.classes import java_class
from floodmark.service.hints import Hints
from floodmark.service.interface import count_of, definition_json, interface_of, method
from floodmark.service.stub import go_source, java_sources
from floodmark.service.types import Int
from kit.sample_service import INTERFACE, Sample

SAMPLE = interface_of(Sample, INTERFACE)


@pytest.mark.parametrize(
    ("name", "descriptor", "result"),
    [
        ("hello", "Ljava/lang/String;", "java.lang.String"),
        ("widths", "BSIJ", "long"),
        ("half", "DF", "double"),
        ("summed", "[I[D", "double"),
        ("words", "Ljava/lang/String;", "java.lang.String[]"),
        ("merged", "Ljava/util/Map;Ljava/util/Map;", "java.util.Map"),
        ("reversedBytes", "[B", "byte[]"),
        ("same", "Ldev/floodmark/sample/Order;", "dev.floodmark.sample.Order"),
        ("done", "", "void"),
        ("square", "Ljava/math/BigInteger;", "java.math.BigInteger"),
        ("sameMoment", "Ljava/util/Date;", "java.util.Date"),
    ],
)
def test_methods_have_java_s_types(name: str, descriptor: str, result: str) -> None:
    found = SAMPLE.methods[name]
    assert (found.descriptor, found.result.erased) == (descriptor, result)


@pytest.mark.parametrize(
    ("descriptor", "count"),
    [("", 0), ("I", 1), ("[[I", 1), ("Ljava/lang/String;J[Lx;", 3), ("L", 1), ("[", 1)],
)
def test_descriptors_are_counted(descriptor: str, count: int) -> None:
    assert count_of(descriptor) == count


def test_names_and_classes_can_be_given() -> None:
    @java_class("org.other.Thing")
    @dataclass
    class Thing:
        part_no: int = 0

    class Service:
        @method(name="fetchIt")
        def fetch(self, thing: Thing, note: str = "") -> "dict[str, list[int]]":
            return {}

    found = interface_of(Service, "dev.Service").methods["fetchIt"]
    assert found.parameters[0].type.java == "org.other.Thing"
    assert found.result.java == "java.util.Map<java.lang.String, java.util.List<java.lang.Long>>"
    assert found.fewest == 1


class Odd:
    def keywords(self, *, a: int) -> int:
        return a


class Union:
    def either(self, a: int | str) -> int:
        return 1


class Unknown:
    def unknown(self, a: complex) -> int:
        return 1


@pytest.mark.parametrize(
    ("cls", "text"),
    [(Odd, "by position"), (Union, "a single type"), (Unknown, "parameter a of unknown")],
)
def test_classes_that_cannot_be_an_interface_say_why(cls: type, text: str) -> None:
    with pytest.raises(InterfaceError, match=text):
        interface_of(cls, "dev.Odd")


def test_java_sources_have_a_file_per_class() -> None:
    sources = java_sources(SAMPLE)
    folder = "dev/floodmark/sample/"
    names = {"Sample", "Order", "Customer", "Line", "Status", "Node", "NoSuchOrder"}
    assert set(sources) == {f"{folder}{name}.java" for name in names}
    text = sources[f"{folder}Sample.java"]
    assert (
        "dev.floodmark.sample.Order find(long orderId) throws dev.floodmark.sample.NoSuchOrder;"
        in text
    )
    assert "public enum Status { OPEN, PAID, SENT }" in sources[f"{folder}Status.java"]
    assert (
        "private java.util.List<dev.floodmark.sample.Line> lines;" in sources[f"{folder}Order.java"]
    )
    assert "extends Exception" in sources[f"{folder}NoSuchOrder.java"]


def test_go_source_has_structs_and_the_service() -> None:
    text = go_source(SAMPLE)
    assert 'Hello func(ctx context.Context, name string) (string, error) `dubbo:"hello"`' in text
    assert 'return "dev.floodmark.sample.Order"' in text
    assert "hessian.RegisterPOJO(&Order{})" in text
    assert "hessian.RegisterJavaEnum(StatusPAID)" in text
    assert "\tStatus Status `hessian" in text
    assert "Sorted func(ctx context.Context, items []int64) ([]interface{}, error)" in text


def test_a_number_that_may_be_missing_is_null_on_the_wire() -> None:
    @dataclass
    class Reading:
        celsius: float | None = None
        station: Int | None = None

    classes = JavaClasses()
    kind = Hints(classes, "dev.").of(Reading)
    encoder = Encoder(classes)
    encoder.write_whole(Reading(), kind.write)
    assert encoder.take().endswith(b"NN")


def test_the_definition_lists_methods_and_types() -> None:
    found: dict[str, Any] = json.loads(definition_json(SAMPLE, {"side": "provider"}))
    assert found["canonicalName"] == INTERFACE
    assert {"name": "done", "parameterTypes": [], "returnType": "void"} in found["methods"]
    assert "dev.floodmark.sample.Order" in {item["type"] for item in found["types"]}


class Worded:
    def look(self, type: str, default: int, ctx: str) -> int:
        return default


class Reserved:
    def new(self) -> int:
        return 1


@dataclass
class Thing:
    default: int = 0


class ReservedField:
    def thing(self) -> Thing:
        return Thing()


def test_words_that_are_reserved_elsewhere() -> None:
    interface = interface_of(Worded, "dev.Worded")
    assert (
        "look(java.lang.String type, long default_, " in java_sources(interface)["dev/Worded.java"]
    )
    assert "type_ string, default_ int64, ctx_ string" in go_source(interface)
    for cls, name in ((Reserved, "new"), (ReservedField, "default")):
        with pytest.raises(InterfaceError, match=f"cannot be named {name} in Java"):
            java_sources(interface_of(cls, "dev.Reserved"))


def test_go_source_imports_only_what_it_uses() -> None:
    text = go_source(interface_of(Worded, "dev.Worded"))
    assert '"context"' in text and "hessian" not in text and "func init" not in text


def test_a_declared_exception_is_an_error_in_go() -> None:
    text = go_source(SAMPLE)
    assert "hessian.RegisterPOJO(&NoSuchOrder{})" in text
    assert "func (e *NoSuchOrder) Error() string" in text
