"""Generates the Python source of an encoder for one message class and version.

Called by `wire/compiler.py`. The generated function appends bytes to a list. One struct call packs
consecutive fixed-width fields together with the length or the empty tag section after them.
Lengths below 128 take one byte there; longer ones take a slower branch.
"""

import struct

from floodmark.wire.primitives import (
    MAX_STRING_BYTES,
    ONE_BYTE,
    encode_varint,
    record_size,
    refuse_string,
)
from floodmark.wire.schema import ZERO_UUID, EncodeError, Field, schema_of
from floodmark.wire.source import FIXED_FORMATS, Source

Pending = list[tuple[str, str]]

LONGEST_SHORT = 5
"""Arrays of up to this many numbers are packed at once. There is a struct for each length, and
partitions seldom have more replicas."""

TEXTS_FOR_PEOPLE = "error_message"
"""Fields of this name often repeat what a client has sent, which may already be as long as a string
can be. Longer texts are cut, so that the error code arrives."""


def shortened(text: bytes) -> bytes:
    """Cuts the text to the maximum length of a string, at the end of a character."""
    return text[:MAX_STRING_BYTES].decode(errors="ignore").encode()


class EncodeSource(Source):
    """Collects lines. `pending` are fixed-width values to be packed together."""

    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__(version, flexible)
        self.namespace.update(
            EncodeError=EncodeError,
            ONE_BYTE=ONE_BYTE,
            ZERO_UUID=ZERO_UUID,
            encode_varint=encode_varint,
            pack=struct.pack,
            record_size=record_size,
            refuse_string=refuse_string,
            shortened=shortened,
            struct_error=struct.error,
        )
        self.pending: Pending = []
        self.append = "append"

    def write(self, cls: type) -> str:
        self.line("def encode(m, parts):")
        with self.block():
            self.line("append = parts.append")
            self.line("try:")
            with self.block():
                self.structure(cls, "m")
                self.flush()
                self.line("return")
            self.line("except (struct_error, AttributeError, TypeError, UnicodeError) as error:")
            with self.block():
                text = f"{cls.__name__} v{self.version} has a value that its field cannot hold: "
                self.line(f"raise EncodeError({text!r} + str(error)) from error")
        return self.text()

    # Fixed-width values

    def fixed(self, code: str, expression: str) -> None:
        self.pending.append((code, expression))

    def take(self) -> Pending:
        pending, self.pending = self.pending, []
        return pending

    def flush(self) -> None:
        self.emit(self.take())

    def emit(self, pending: Pending) -> None:
        if not pending:
            return
        if len(pending) == 1 and pending[0][0] == "x":
            self.line(f"{self.append}(b'\\0')")
            return
        self.line(f"{self.append}({self.packed(pending)})")

    def packed(self, pending: Pending) -> str:
        codes = "".join(code for code, _ in pending)
        name = "pack_" + codes.replace("?", "t")
        self.namespace[name] = struct.Struct(">" + codes).pack
        return f"{name}({', '.join(expression for _, expression in pending if expression)})"

    def emit_varint(self, pending: Pending, value: str) -> None:
        """Writes pending values, then an unsigned varint."""
        if not pending:
            self.line(
                f"{self.append}(ONE_BYTE[{value}] if {value} < 128 else encode_varint({value}))"
            )
            return
        self.line(f"if {value} < 128: {self.append}({self.packed([*pending, ('B', value)])})")
        self.line(f"else: {self.append}({self.packed(pending)} + encode_varint({value}))")

    def emit_null(self, pending: Pending, kind: str) -> None:
        null = ("x", "") if self.flexible else ("h" if kind == "string" else "i", "-1")
        self.emit([*pending, null])

    def emit_length(self, pending: Pending, kind: str) -> None:
        """Writes pending values, then the length `n`."""
        if self.flexible:
            self.line("n += 1")
            self.emit_varint(pending, "n")
        else:
            self.emit([*pending, ("h" if kind == "string" else "i", "n")])

    # Structures

    def structure(self, cls: type, item: str) -> None:
        tagged = []
        for field in schema_of(cls).fields:
            value = f"{item}.{field.name}"
            if not field.exists_in(self.version):
                self.refuse_unless_default(cls, field, value)
            elif field.tag is not None and self.flexible:
                tagged.append(field)
            else:
                self.value(field, value)
        if self.flexible:
            self.tags(tagged, item)

    def refuse_unless_default(self, cls: type, field: Field, value: str) -> None:
        if field.ignorable:
            return
        text = f"{cls.__name__}.{field.name} is set but does not exist in version {self.version}"
        self.line(f"if {self.differs(field, value)}: raise EncodeError({text!r})")

    def differs(self, field: Field, value: str) -> str:
        """An expression that is true if the value is not the default."""
        if field.default is None:
            return f"{value} is not None"
        if field.kind in ("array", "bytes"):
            return f"({value} is None or len({value}) > 0)"
        if field.kind == "uuid":
            return f"({value} is not ZERO_UUID and {value} != ZERO_UUID)"
        if field.kind != "struct":
            return f"{value} != {field.default!r}"
        default = field.default() if field.default is field.element else field.default
        name = self.constant(f"default_{field.name}", default)
        return f"({value} is not {name} and {value} != {name})"

    def tags(self, tagged: list[Field], item: str) -> None:
        if not tagged:
            self.fixed("x", "")
            return
        pending = self.take()
        tests = [self.differs(field, f"{item}.{field.name}") for field in tagged]
        self.line(f"if not ({' or '.join(tests)}):")
        with self.block():
            self.emit([*pending, ("x", "")])
        self.line("else:")
        with self.block():
            self.emit(pending)
            self.written_tags(tagged, tests, item)

    def written_tags(self, tagged: list[Field], tests: list[str], item: str) -> None:
        written, body = self.name("tags"), self.name("body")
        outer = self.append
        self.line(f"{written} = []")
        in_order = sorted(zip(tagged, tests, strict=True), key=lambda pair: pair[0].tag or 0)
        for field, test in in_order:
            self.line(f"if {test}:")
            with self.block():
                self.line(f"{body} = []")
                self.append = f"{body}.append"
                self.value(field, f"{item}.{field.name}")
                self.flush()
                self.append = outer
                self.line(f"{body} = b''.join({body})")
                tag = encode_varint(field.tag or 0)
                self.line(f"{written}.append({tag!r} + encode_varint(len({body})) + {body})")
        self.line(f"{outer}(encode_varint(len({written})) + b''.join({written}))")

    # Values

    def value(self, field: Field, value: str) -> None:
        nullable = field.nullable_in(self.version)
        if field.kind == "array":
            self.array(field, value, nullable)
        elif field.kind == "struct":
            self.nested(field, value, nullable)
        elif field.kind == "records":
            self.records(value, nullable)
        else:
            self.primitive(field.kind, field.name, value, nullable)

    def primitive(self, kind: str, name: str, value: str, nullable: bool) -> None:
        if kind == "uuid":
            self.fixed("16s", f"{value}.int.to_bytes(16, 'big')")
        elif kind in FIXED_FORMATS:
            self.fixed(FIXED_FORMATS[kind], value)
        else:
            self.sized(kind, name, value, nullable)

    def nested(self, field: Field, value: str, nullable: bool) -> None:
        item = self.name("m")
        self.line(f"{item} = {value}")
        if not nullable:
            self.structure(field.element, item)
            return
        pending = self.take()
        self.line(f"if {item} is None:")
        with self.block():
            # A nullable structure starts with -1 or 1 in a byte, but with varint 0 or 1 if tagged.
            self.emit([*pending, ("b", "-1" if field.tag is None else "0")])
        self.line("else:")
        with self.block():
            self.pending = [*pending, ("b", "1")]
            self.structure(field.element, item)
            self.flush()

    def sized(self, kind: str, name: str, value: str, nullable: bool) -> None:
        pending = self.take()
        if not nullable:
            self.line(f"v = {value}")
            self.sized_body(pending, kind, name)
            return
        self.line(f"v = {value}")
        self.line("if v is None:")
        with self.block():
            self.emit_null(pending, kind)
        self.line("else:")
        with self.block():
            self.sized_body(pending, kind, name)

    def sized_body(self, pending: Pending, kind: str, name: str) -> None:
        if kind == "string":
            self.line("v = v.encode()")
        self.line("n = len(v)")
        if kind == "string" and name.endswith(TEXTS_FOR_PEOPLE):
            self.line(f"if n > {MAX_STRING_BYTES}: v = shortened(v); n = len(v)")
        elif kind == "string":
            self.line(f"if n > {MAX_STRING_BYTES}: refuse_string({name!r}, n)")
        self.emit_length(pending, kind)
        self.line(f"{self.append}(v)")

    def records(self, value: str, nullable: bool) -> None:
        pending = self.take()
        self.line(f"v = {value}")
        if nullable:
            self.line("if v is None:")
            with self.block():
                self.emit_null(pending, "records")
            self.line("else:")
            with self.block():
                self.records_body(pending)
        else:
            self.records_body(pending)

    def records_body(self, pending: Pending) -> None:
        self.line("n = len(v) if type(v) is bytes else record_size(v)")
        self.emit_length(pending, "records")
        self.line("if type(v) is list: parts.extend(v)")
        self.line("else: append(v)")

    def array(self, field: Field, value: str, nullable: bool) -> None:
        items = self.name("items")
        pending = self.take()
        self.line(f"{items} = {value}")
        if nullable:
            self.line(f"if {items} is None:")
            with self.block():
                self.emit_null(pending, "array")
            self.line("else:")
            with self.block():
                self.elements(pending, field, items)
        else:
            self.elements(pending, field, items)

    def elements(self, pending: Pending, field: Field, items: str) -> None:
        self.line(f"n = len({items})")
        if field.element in FIXED_FORMATS:
            self.numbers(pending, FIXED_FORMATS[field.element], items)
            return
        self.emit_length(pending, "array")
        item = self.name("m")
        self.line(f"for {item} in {items}:")
        with self.block():
            if isinstance(field.element, str):
                self.primitive(field.element, field.name, item, False)
            else:
                self.structure(field.element, item)
            self.flush()

    def numbers(self, pending: Pending, code: str, items: str) -> None:
        """Packs short arrays, such as a partition's replicas, together with the values before."""
        length = ("B", "n + 1") if self.flexible else ("i", "n")
        codes = "".join(code for code, _ in [*pending, length])
        name = f"pack_{codes}_{code}".replace("?", "t")
        self.namespace[name] = [
            struct.Struct(f">{codes}{count}{code}").pack for count in range(LONGEST_SHORT + 1)
        ]
        values = [expression for _, expression in [*pending, length] if expression]
        packed = f"{name}[n]({', '.join(values)}, *{items})"
        self.line(f"if n <= {LONGEST_SHORT}: {self.append}({packed})")
        self.line("else:")
        with self.block():
            self.emit_length(pending, "array")
            self.line(f"{self.append}(pack(f'>{{len({items})}}{code}', *{items}))")
