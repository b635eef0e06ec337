"""Compiles the decoder of one message in one version.

The generated function is what one would write by hand for exactly that version: all nested
structs are in line, loops within loops, with no calls between them, and with no thought for
fields or encodings that the version does not have. For ProduceRequest version 3 it begins

    def decode(buffer, position=0):
        ...
        produce_request = new(ProduceRequest)
        (length,) = unpack_h(buffer, position)
        position += 2
        ...
        produce_request.acks, produce_request.timeout_ms, count = unpack_hii(buffer, position)
        position += 10

Three ideas make it quick and short:

- Every type starts with something of fixed width: itself, or the first byte of its length. So a
  run of neighbours, up to and including the first length, is one `unpack_from` straight into the
  attributes. A compact length is read as one byte that way, and again as a whole varint in the
  rare case that it has more.
- Reading past the end needs no check: `struct` and indexing raise, and one `except` around the
  whole function makes that MalformedMessage. What is checked is what would allocate or slice:
  counts and lengths, against the bytes that are left.
- A message without `records` is copied to `bytes` first: such messages are small, and a string is
  cut from bytes in two thirds of the time that a memoryview takes (numbers cost the same). One
  with `records` is read through a memoryview, and `records` are slices of it.

An array is refused unless its count times the least size of an element fits into what is
left. A request may also have no more than `ELEMENTS_MAX` elements in all its arrays, since the
smallest structs take 3 bytes on the wire and 120 as objects.

A message of so many elements takes a good part of a second, for which a loop must not stand
still. So there are two more decoders of the same message: one for those that are small, which gives
up with `TooManyElements` before it has done more than a little, and one that is a coroutine, and
waits for `pause()` after every so many elements. Small messages pay nothing for it: their elements
are counted anyway.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

from ottla.wire import primitives
from ottla.wire.schema import (
    Array,
    Bytes,
    Field,
    Fixed,
    Message,
    Nested,
    Records,
    Request,
    String,
    Struct,
    Type,
    has_records,
)
from ottla.wire.source import Source, snake_case

ELEMENTS_MAX = 100_000

SMALL_ELEMENTS_MAX = 128
"""In a message that is decoded without a pause: a tenth of a millisecond, and what is done with
each of them may take ten times as long."""

ELEMENTS_AT_ONCE = 512
"""Between two pauses: half a millisecond."""

FIXED_AT_ONCE = 8192
"""Of an array of plain numbers."""

_READ_ERRORS = (struct.error, IndexError, UnicodeDecodeError)


class TooManyElements(Exception):
    """It is to be decoded in slices."""


class Decoding(Enum):
    WHOLE = auto()
    SMALL = auto()
    SLICED = auto()


def decoder_source(cls: type[Message], version: int, decoding: Decoding = Decoding.WHOLE) -> Source:
    if version not in cls.VERSIONS:
        raise ValueError(f"{cls.__name__} has no version {version}")
    return _DecodeCompiler(cls, version, decoding).source


class _DecodeCompiler:
    """Writes one decoder, when it is made. Gathers fixed-width targets in `_run`."""

    def __init__(self, cls: type[Message], version: int, decoding: Decoding) -> None:
        self.source = Source()
        self._version = version
        self._flexible = cls.is_flexible(version)
        self._counts_elements = issubclass(cls, Request)
        self._decoding = decoding
        self._is_sliced = decoding is Decoding.SLICED
        # To copy eight megabytes would take milliseconds by itself.
        self._views = self._is_sliced or has_records(cls, version)
        self._run: list[tuple[str, str]] = []
        self._tag_depth = 0
        self.source.names |= {
            "MalformedMessage": primitives.MalformedMessage,
            "TooManyElements": TooManyElements,
            "ReadErrors": _READ_ERRORS,
            "bad_length": bad_length,
            "new": object.__new__,
            "read_tag": primitives.read_tag,
            "read_unsigned_varint": primitives.read_unsigned_varint,
            "skip_tagged_fields": primitives.skip_tagged_fields,
            "unpack_from": struct.unpack_from,
        }
        self._write_function(cls)

    def _write_function(self, cls: type[Message]) -> None:
        source, variable = self.source, snake_case(cls.__name__)
        start = "def decode(buffer, position=0):"
        if self._is_sliced:
            start = "async def decode(buffer, position, pause):"
        with source.block(start):
            source.line(f"buffer = {'memoryview' if self._views else 'bytes'}(buffer)")
            source.line("end = len(buffer)")
            if self._counts_elements:
                source.line("elements = 0")
            if self._is_sliced:
                source.line("steps = 0")
            with source.block("try:"):
                self._write_struct(cls, variable)
                self._flush()
            with source.block("except ReadErrors as error:"):
                source.line(
                    "raise MalformedMessage("
                    f"f'{cls.__name__} version {self._version}: {{error}}') from error"
                )
            source.line(f"return {variable}, position")

    # A frozen struct is built from locals at the end, any other is made first and filled.

    def _write_struct(self, cls: type[Struct], variable: str) -> None:
        source = self.source
        source.names[cls.__name__] = cls
        glue = "_" if cls.FROZEN else "."
        if not cls.FROZEN:
            source.line(f"{variable} = new({cls.__name__})")
        tagged: list[tuple[Field, str]] = []
        for field in cls.FIELDS:
            target = f"{variable}{glue}{field.name}"
            if self._version not in field.versions:
                self._write_default(field, target)
            elif field.tag is not None:
                self._write_default(field, target)
                tagged.append((field, target))
            else:
                self._write_value(field.type, target, field.name, self._version in field.nullable)
        if self._flexible:
            self._write_tagged(tagged)
        if cls.FROZEN:
            self._flush()
            values = ", ".join(f"{f.name}={variable}_{f.name}" for f in cls.FIELDS)
            source.line(f"{variable} = {cls.__name__}({values})")

    def _write_default(self, field: Field, target: str) -> None:
        if field.default_is_new_list:
            self.source.line(f"{target} = []")
        else:
            value = self.source.constant(f"default_{field.name}", field.default)
            self.source.line(f"{target} = {value}")

    def _write_value(self, type: Type, target: str, name: str, nullable: bool) -> None:
        match type:
            case Fixed():
                self._run.append((type.format, target))
            case String() | Bytes() | Records():
                self._write_bytes(type, target, name, nullable)
            case Array():
                self._write_array(type, target, name, nullable)
            case Nested():
                self._write_nested(type, target, nullable)

    def _flush(self) -> None:
        """Writes the run. Nothing that reads `buffer` or `position` may be written before."""
        if not self._run:
            return
        formats = "".join(format for format, _ in self._run)
        targets = ", ".join(target for _, target in self._run)
        self._run.clear()
        if formats == "B":
            self.source.line(f"{targets} = buffer[position]")
        else:
            if ", " not in targets:
                targets = f"({targets},)"
            unpack = self.source.struct_method("unpack_from", formats)
            self.source.line(f"{targets} = {unpack}(buffer, position)")
        self.source.line(f"position += {struct.calcsize('>' + formats)}")

    def _read_length(self, variable: str, legacy_format: str) -> None:
        """Leaves the length in `variable`; null is -1, and in compact form nothing is below it."""
        self._run.append(("B" if self._flexible else legacy_format, variable))
        self._flush()
        if self._flexible:
            with self.source.block(f"if {variable} > 127:"):
                self.source.line(
                    f"{variable}, position = read_unsigned_varint(buffer, position - 1)"
                )
            self.source.line(f"{variable} -= 1")

    @contextmanager
    def _unless_null(self, condition: str, target: str, nullable: bool) -> Iterator[None]:
        if not nullable:
            yield
            return
        with self.source.block(f"if {condition}:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            yield

    def _write_bytes(
        self, type: String | Bytes | Records, target: str, name: str, nullable: bool
    ) -> None:
        source = self.source
        self._read_length("length", "h" if isinstance(type, String) else "i")
        with self._unless_null("length == -1", target, nullable):
            source.line("stop = position + length")
            too_long = f" or length > {primitives.STRING_BYTES_MAX}"
            too_long = too_long if isinstance(type, String) and self._flexible else ""
            with source.block(f"if length < 0 or stop > end{too_long}:"):
                source.line(f"raise bad_length({name!r}, length, end - position)")
            content = "buffer[position:stop]"
            if isinstance(type, String):
                content = f"str({content}, 'utf-8')" if self._views else f"{content}.decode()"
            elif isinstance(type, Bytes) and self._views:
                content = f"bytes({content})"
            source.line(f"{target} = {content}")
            source.line("position = stop")

    def _write_array(self, type: Array, target: str, name: str, nullable: bool) -> None:
        source, element = self.source, type.element
        element_bytes_min = least_size(element, self._version, self._flexible)
        assert element_bytes_min > 0, f"elements of {name} may be empty: counts have no bound"
        self._read_length("count", "i")
        with self._unless_null("count == -1", target, nullable):
            with source.block(f"if count < 0 or count * {element_bytes_min} > end - position:"):
                source.line(f"raise bad_length({name!r}, count, end - position)")
            if self._counts_elements:
                source.line("elements += count")
                self._write_limit()
            if isinstance(element, Fixed) and len(element.format) == 1:
                self._write_fixed_array(element, target, name)
                return
            if isinstance(element, Nested):
                item = snake_case(element.struct.__name__)
            else:
                item = f"{name}_item"
            source.line(f"{target} = {item}_list = []")
            with source.block("for _ in range(count):"):
                if isinstance(element, Nested):
                    self._write_struct(element.struct, item)
                else:
                    self._write_value(element, item, name, nullable=False)
                self._flush()
                source.line(f"{item}_list.append({item})")
                if self._is_sliced:
                    source.line("steps += 1")
                    with source.block(f"if not steps % {ELEMENTS_AT_ONCE}:"):
                        source.line("await pause()")

    def _write_limit(self) -> None:
        source = self.source
        if self._decoding is Decoding.SMALL:
            with source.block(f"if elements > {SMALL_ELEMENTS_MAX}:"):
                source.line("raise TooManyElements")
        else:
            with source.block(f"if elements > {ELEMENTS_MAX}:"):
                source.line(f"raise MalformedMessage('more than {ELEMENTS_MAX} elements')")

    def _write_fixed_array(self, element: Fixed, target: str, name: str) -> None:
        source = self.source
        numbers = f"list(unpack_from(f'>{{count}}{element.format}', buffer, position))"
        if not self._is_sliced:
            source.line(f"{target} = {numbers}")
            source.line(f"position += count * {element.size_bytes}")
            return
        source.line(f"{target} = {name}_list = []")
        source.line(f"{name}_count = count")
        with source.block(f"while {name}_count:"):
            source.line(f"count = min({name}_count, {FIXED_AT_ONCE})")
            source.line(f"{name}_list += {numbers}")
            source.line(f"position += count * {element.size_bytes}")
            source.line(f"{name}_count -= count")
            with source.block(f"if {name}_count:"):
                source.line("await pause()")

    def _write_nested(
        self, type: Nested, target: str, nullable: bool, null: str = "present < 0"
    ) -> None:
        if nullable:
            self._run.append(("b", "present"))
            self._flush()
        with self._unless_null(null, target, nullable):
            variable = snake_case(type.struct.__name__)
            self._write_struct(type.struct, variable)
            self._flush()
            self.source.line(f"{target} = {variable}")

    def _write_tagged(self, tagged: list[tuple[Field, str]]) -> None:
        """The section of tagged fields at the end of every struct of a flexible version. Its
        count is nearly always zero, so it is read as a byte together with what is before it."""
        source = self.source
        self._run.append(("B", "tags"))
        self._flush()
        if not tagged:
            with source.block("if tags:"):
                source.line("position = skip_tagged_fields(buffer, position - 1, end)")
            return
        # Structs within tagged fields have tagged fields too: the names say how deep this is.
        self._tag_depth += 1
        tag, tag_end = f"tag_{self._tag_depth}", f"tag_end_{self._tag_depth}"
        with source.block("if tags:"):
            source.line("tags, position = read_unsigned_varint(buffer, position - 1)")
            source.line(f"{tag} = -1")
            with source.block("for _ in range(tags):"):
                source.line(f"{tag}, size, position = read_tag(buffer, position, end, {tag})")
                source.line(f"{tag_end} = position + size")
                keyword = "if"
                for field, target in tagged:
                    with source.block(f"{keyword} {tag} == {field.tag}:"):
                        nullable = self._version in field.nullable
                        if isinstance(field.type, Nested):
                            self._write_nested(field.type, target, nullable, "present == 0")
                        else:
                            self._write_value(field.type, target, field.name, nullable)
                        self._flush()
                    keyword = "elif"
                with source.block("else:"):
                    source.line(f"position = {tag_end}")
                with source.block(f"if position != {tag_end}:"):
                    source.line(f"raise MalformedMessage(f'tag {{{tag}}} has a wrong size')")
        self._tag_depth -= 1


def bad_length(name: str, length: int, bytes_left: int) -> primitives.MalformedMessage:
    if length == -1:
        return primitives.MalformedMessage(f"{name} is null")
    return primitives.MalformedMessage(f"{name} of length {length} in {bytes_left} bytes")


def least_size(type: Type, version: int, flexible: bool) -> int:
    """The bytes that the smallest value of this type takes."""
    match type:
        case Fixed():
            return type.size_bytes
        case String():
            return 1 if flexible else 2
        case Bytes() | Records() | Array():
            return 1 if flexible else 4
        case Nested():
            size = 1 if flexible else 0
            for field in type.struct.FIELDS:
                if version in field.versions and field.tag is None:
                    if isinstance(field.type, Nested) and version in field.nullable:
                        size += 1
                    else:
                        size += least_size(field.type, version, flexible)
            return size
