"""Generates the Python source of a decoder for one message class and version.

Called by `wire/compiler.py`. The source is straight-line code: nested structures are inlined, and
one struct call reads consecutive fixed-width fields together with the length after them. Errors
that Python raises at the end of the bytes become `DecodeError` in one place, around the whole
function.
"""

import struct
from typing import Any

from floodmark.wire.primitives import (
    MAX_BYTES_TO_GROW,
    MAX_ENTRIES,
    MAX_STRING_BYTES,
    NUMBERS_PER_ENTRY,
    check_growth,
    finish_varint,
    read_tag,
    refuse_array,
    refuse_length,
    skip_tags,
    tag_count,
    uuid_from_bytes,
)
from floodmark.wire.schema import ZERO_UUID, DecodeError, Field, schema_of
from floodmark.wire.source import FIXED_FORMATS, Source


class DecodeSource(Source):
    """Collects lines. `pending` are fixed-width reads to be combined into one."""

    def __init__(self, version: int, flexible: bool) -> None:
        super().__init__(version, flexible)
        self.namespace.update(
            DecodeError=DecodeError,
            ZERO_UUID=ZERO_UUID,
            check_growth=check_growth,
            finish_varint=finish_varint,
            new=object.__new__,
            read_tag=read_tag,
            refuse_array=refuse_array,
            refuse_length=refuse_length,
            skip_tags=skip_tags,
            struct_error=struct.error,
            tag_count=tag_count,
            unpack_from=struct.unpack_from,
            uuid_from_bytes=uuid_from_bytes,
        )
        self.pending: list[tuple[str, str]] = []
        self.after_flush: list[str] = []

    def write(self, cls: type) -> str:
        self.line(f"def decode(buf, p, left={MAX_ENTRIES}):")
        with self.block():
            self.line("try:")
            with self.block():
                if self.has_records(cls):
                    # Slices of a memoryview share its memory; slices of bytes would be copies.
                    self.line("if type(buf) is not memoryview: buf = memoryview(buf)")
                self.line("end = len(buf)")
                result = self.structure(cls)
                self.flush()
                self.line(f"return {result}, p")
            self.line("except (IndexError, struct_error):")
            with self.block():
                text = f"{cls.__name__} v{self.version} ends before its fields do"
                self.line(f"raise DecodeError({text!r}) from None")
        return self.text()

    # Fixed-width reads

    def fixed(self, code: str, target: str) -> None:
        self.pending.append((code, target))

    def flush(self) -> None:
        if self.pending:
            codes = "".join(code for code, _ in self.pending)
            targets = ", ".join(target for _, target in self.pending)
            if codes == "B":
                self.line(f"{targets} = buf[p]")
            else:
                self.line(
                    f"{targets}{',' * (len(self.pending) == 1)} = {self.unpacker(codes)}(buf, p)"
                )
            self.line(f"p += {struct.calcsize('>' + codes)}")
            self.pending.clear()
        for line in self.after_flush:
            self.line(line)
        self.after_flush.clear()

    def unpacker(self, codes: str) -> str:
        # "16s" is one code of two digits and a letter, so a name built from it is still unique.
        name = "unpack_" + codes.replace("?", "t")
        self.namespace[name] = struct.Struct(">" + codes).unpack_from
        return name

    # Structures

    def structure(self, cls: type) -> str:
        schema = schema_of(cls)
        item = self.name("m")
        if not schema.frozen:
            self.line(f"{item} = new({self.constant(cls.__name__, cls)})")
            self.fields(schema.fields, lambda field: f"{item}.{field.name}")
            return item
        targets = {field.name: self.name(field.name) for field in schema.fields}
        self.fields(schema.fields, lambda field: targets[field.name])
        self.flush()
        arguments = ", ".join(f"{name}={target}" for name, target in targets.items())
        self.line(f"{item} = {self.constant(cls.__name__, cls)}({arguments})")
        return item

    def fields(self, fields: tuple[Field, ...], target_of: Any) -> None:
        tagged = []
        for field in fields:
            present = field.exists_in(self.version)
            if present and (field.tag is None or not self.flexible):
                self.value(field, target_of(field))
            else:
                self.after_flush.append(f"{target_of(field)} = {self.default(field)}")
                if present:
                    tagged.append(field)
        if self.flexible:
            self.tags(tagged, target_of)

    def default(self, field: Field) -> str:
        if field.kind == "array" and field.default is not None:
            return "[]"
        if field.kind == "uuid":
            return "ZERO_UUID"
        if field.kind == "struct" and field.default is not None:
            if field.default is field.element:
                return f"{self.constant(field.element.__name__, field.element)}()"
            return self.constant(f"default_{field.name}", field.default)
        return repr(field.default)

    def tags(self, tagged: list[Field], target_of: Any) -> None:
        self.fixed("B", "n")
        self.flush()
        if not tagged:
            self.line("if n: p = skip_tags(buf, p, n, end)")
            return
        count, tag, stop = self.name("count"), self.name("tag"), self.name("stop")
        self.line("if n:")
        with self.block():
            self.line(f"{count}, p = tag_count(buf, p, n)")
            self.line(f"for _ in range({count}):")
            with self.block():
                self.line(f"{tag}, p, {stop} = read_tag(buf, p, end)")
                for field in tagged:
                    self.line(f"if {tag} == {field.tag}:")
                    with self.block():
                        self.value(field, target_of(field))
                        self.flush()
                        text = f"tagged field {field.name} is not as long as it claims"
                        self.line(f"if p != {stop}: raise DecodeError({text!r})")
                self.line(f"p = {stop}")

    # Values

    def value(self, field: Field, target: str) -> None:
        nullable = field.nullable_in(self.version)
        if field.kind == "array":
            self.array(field, target, nullable)
        elif field.kind == "struct":
            self.nested(field, target, nullable)
        else:
            self.primitive(field.kind, field.name, target, nullable)

    def primitive(self, kind: str, name: str, target: str, nullable: bool) -> None:
        if kind == "uuid":
            raw = self.name("raw")
            self.fixed("16s", raw)
            self.after_flush.append(f"{target} = uuid_from_bytes({raw})")
        elif kind in FIXED_FORMATS:
            self.fixed(FIXED_FORMATS[kind], target)
        else:
            self.sized(kind, name, target, nullable)

    def nested(self, field: Field, target: str, nullable: bool) -> None:
        if not nullable:
            self.line(f"{target} = {self.detached(field.element)}")
            return
        # A nullable structure starts with -1 or 1 in a byte, but with varint 0 or 1 if tagged.
        self.fixed("B" if field.tag is not None else "b", "n")
        self.flush()
        self.line(f"if n {'== 0' if field.tag is not None else '< 0'}: {target} = None")
        self.line("else:")
        with self.block():
            self.line(f"{target} = {self.detached(field.element)}")

    def detached(self, cls: type) -> str:
        """Decodes a structure completely, so that the caller can assign it."""
        item = self.structure(cls)
        self.flush()
        return item

    def length(self, kind: str) -> None:
        """Reads a length into `n`: -1 for null."""
        if not self.flexible:
            self.fixed("h" if kind == "string" else "i", "n")
            self.flush()
            return
        self.fixed("B", "n")
        self.flush()
        self.line("if n > 127: n, p = finish_varint(buf, p, n)")
        self.line("n -= 1")

    def sized(self, kind: str, name: str, target: str, nullable: bool) -> None:
        self.length(kind)
        if nullable:
            self.line(f"if n == -1: {target} = None")
            self.line("else:")
            with self.block():
                self.slice(kind, name, target)
        else:
            self.slice(kind, name, target)

    def slice(self, kind: str, name: str, target: str) -> None:
        self.line("e = p + n")
        limit = f" or n > {MAX_STRING_BYTES}" if kind == "string" else ""
        self.line(f"if n < 0 or e > end{limit}: refuse_length({name!r}, n, end - p)")
        # Bytes that are not UTF-8 become U+FFFD, as in Java: a name in Latin-1 is an invalid topic,
        # and binary metadata of a committed offset does not end the connection.
        convert = {"string": "str(buf[p:e], 'utf-8', 'replace')", "bytes": "bytes(buf[p:e])"}
        self.line(f"{target} = {convert.get(kind, 'buf[p:e]')}")
        if kind == "string":
            self.line(f"if n > {MAX_BYTES_TO_GROW}: check_growth({name!r}, {target})")
        self.line("p = e")

    def array(self, field: Field, target: str, nullable: bool) -> None:
        self.length("array")
        if nullable:
            self.line(f"if n == -1: {target} = None")
            self.line("else:")
            with self.block():
                self.elements(field, target)
        else:
            self.elements(field, target)

    def elements(self, field: Field, target: str) -> None:
        is_number = field.element in FIXED_FORMATS
        count = f"n // {NUMBERS_PER_ENTRY}" if is_number else "n"
        too_many = f"n > {MAX_ENTRIES} or {count} > left" if is_number else "n > left"
        self.line(
            f"if n < 0 or n > end - p or {too_many}: refuse_array({field.name!r}, n, end - p)"
        )
        self.line(f"left -= {count}")
        if is_number:
            code = FIXED_FORMATS[field.element]
            self.line(f"{target} = list(unpack_from(f'>{{n}}{code}', buf, p))")
            self.line(f"p += {struct.calcsize('>' + code)} * n")
            return
        items = self.name("items")
        self.line(f"{target} = {items} = []")
        self.line("for _ in range(n):")
        with self.block():
            if isinstance(field.element, str):
                item = self.name("item")
                self.primitive(field.element, field.name, item, False)
                self.flush()
            else:
                item = self.detached(field.element)
            self.line(f"{items}.append({item})")
