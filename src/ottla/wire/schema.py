"""The language in which messages are declared: one class for a message over all its versions.

    class PartitionProduceData(Struct):
        index: int = int32()
        records: memoryview | None = records(nullable="0+")

    class ProduceRequest(Request, api_key=0, versions="3-13", flexible="9+"):
        transactional_id: str | None = string("3+", nullable="3+", default=None)
        acks: int = int16()
        topic_data: list[TopicProduceData] = array(TopicProduceData)

A declaration says of each field, in the order of the wire: its type, the versions that carry it
(all, if it does not say), the versions in which it may be null, its tag if it is a tagged field
(KIP-482), and its default. A version that lacks a field decodes to the default. Versions are
written as Kafka writes them: "3", "3-7", "3+".

The classes are what `@dataclass(slots=True, kw_only=True)` would make of the same body, and type
checkers take them as that. They are made here because 120 real dataclasses took 40 ms of every
start, for methods that are hardly ever called, and these take 2: `__init__` is compiled on its
first call, `__eq__` and `__repr__` are loops. Codecs are compiled from `FIELDS` by
`ottla.wire.codec`.

A struct that stands as a field by itself, not in an array, is declared `frozen=True`: all
messages share one instance of its default.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, cast, dataclass_transform, overload

from ottla.kernel.ids import NO_TOPIC_ID, TopicId

ALL_VERSIONS = range(0x8000)

OWN_TAGS = 10_000
"""From here on tags are of fields that Kafka does not have, and skips."""


def parse_versions(text: str) -> range:
    """
    >>> parse_versions("3-7"), parse_versions("3")
    (range(3, 8), range(3, 4))
    >>> 3 in parse_versions("2+"), 1 in parse_versions("2+")
    (True, False)
    """
    if text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), ALL_VERSIONS.stop)
    lowest, _, highest = text.partition("-")
    return range(int(lowest), int(highest or lowest) + 1)


# --- types -----------------------------------------------------------------------------------


class Fixed(NamedTuple):
    """A type of fixed width, by its character in Python's `struct`."""

    format: str
    size_bytes: int


class String:
    __slots__ = ()


class Bytes:
    __slots__ = ()


class Records:
    """Like Bytes on the wire, but never copied: decoded to a view, encoded as a part."""

    __slots__ = ()


class Nested(NamedTuple):
    struct: type[Struct]


class Array(NamedTuple):
    element: Type


Type = Fixed | String | Bytes | Records | Nested | Array

_NEW_LIST = object()


class Field:
    """One field of a struct. `name` is set by the class that it stands in."""

    __slots__ = ("default", "ignorable", "name", "nullable", "tag", "type", "versions")

    def __init__(
        self,
        type: Type,
        versions: str,
        *,
        nullable: str = "none",
        tag: int | None = None,
        default: object,
        ignorable: bool = True,
    ) -> None:
        self.name = ""
        self.type = type
        self.versions = parse_versions(versions)
        self.nullable = parse_versions(nullable)
        self.tag = tag
        self.default = default
        self.ignorable = ignorable

    @property
    def default_is_new_list(self) -> bool:
        return isinstance(self.type, Array) and self.default is not None


# --- classes ---------------------------------------------------------------------------------


@dataclass_transform(kw_only_default=True)
class StructMeta(type):
    """Turns a body of field declarations into a slotted class."""

    FIELDS: tuple[Field, ...]
    FROZEN: bool

    def __new__(
        mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any
    ) -> StructMeta:
        fields = {key: value for key, value in body.items() if isinstance(value, Field)}
        for key, declared in fields.items():
            declared.name = key
            del body[key]
        frozen = options.pop("frozen", False)
        body["__slots__"] = tuple(fields)
        body["FIELDS"] = tuple(fields.values())
        body["FROZEN"] = frozen
        if frozen:
            body["__setattr__"] = body["__delattr__"] = _refuse_change
            body["__hash__"] = Struct.hash_of_fields
        return super().__new__(mcs, name, bases, body, **options)

    def __init__(
        cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any
    ) -> None:
        super().__init__(name, bases, body)


def _refuse_change(self: object, name: str, value: object = None) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen: make a new one to change {name}")


class Struct(metaclass=StructMeta):
    """A struct within a message. Lives as long as the message that holds it."""

    FIELDS: ClassVar[tuple[Field, ...]]
    FROZEN: ClassVar[bool]

    def __init__(self, **values: Any) -> None:
        # Replaces itself by one made for this class, at the first instance of it.
        cls = type(self)
        cls.__init__ = _compile_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]  # mutable, as its fields are

    def hash_of_fields(self) -> int:
        return hash(tuple(getattr(self, field.name) for field in self.FIELDS))

    def __repr__(self) -> str:
        values = (f"{field.name}={getattr(self, field.name)!r}" for field in self.FIELDS)
        return f"{type(self).__name__}({', '.join(values)})"


class Message(Struct):
    """What travels alone: the body of a request or of a response."""

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[range]
    FLEXIBLE_VERSIONS: ClassVar[range]

    def __init_subclass__(
        cls, *, api_key: int = -1, versions: str = "none", flexible: str = "none"
    ) -> None:
        cls.API_KEY = api_key
        cls.VERSIONS = parse_versions(versions)
        cls.FLEXIBLE_VERSIONS = parse_versions(flexible)

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields (KIP-482)."""
        return version in cls.FLEXIBLE_VERSIONS


class Request(Message):
    pass


class Response(Message):
    pass


def has_records(cls: type[Struct], version: int) -> bool:
    """Whether there is a field of records somewhere in it."""
    for field in cls.FIELDS:
        if version not in field.versions:
            continue
        type = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(type, Records):
            return True
        if isinstance(type, Nested) and has_records(type.struct, version):
            return True
    return False


def _compile_init(cls: type[Struct]) -> Any:
    """An `__init__` with a keyword for each field, as dataclasses would write it."""
    parameters, lines, names = [], [], {"new_list": _NEW_LIST, "store": object.__setattr__}
    for field in cls.FIELDS:
        value = field.name
        if field.default_is_new_list:
            parameters.append(f"{field.name}=new_list")
            value = f"[] if {field.name} is new_list else {field.name}"
        else:
            names[f"default_{field.name}"] = field.default
            parameters.append(f"{field.name}=default_{field.name}")
        if cls.FROZEN:
            lines.append(f"    store(self, {field.name!r}, {value})")
        else:
            lines.append(f"    self.{field.name} = {value}")
    star = ["*"] if parameters else []
    source = "\n".join(
        [f"def __init__({', '.join(['self', *star, *parameters])}):", *(lines or ["    pass"])]
    )
    exec(source, names)
    return names["__init__"]


# --- field declarations ----------------------------------------------------------------------
#
# They return a Field, but say that they return the value that the field will hold, so that a type
# checker holds the annotation and the declaration of a field against each other.

T = TypeVar("T")


def boolean(
    versions: str = "0+", *, tag: int | None = None, default: bool = False, ignorable: bool = True
) -> bool:
    field = Field(Fixed("?", 1), versions, tag=tag, default=default, ignorable=ignorable)
    return cast("bool", field)


def _integer(format: str, size_bytes: int) -> _Integer:
    fixed = Fixed(format, size_bytes)

    def declare(
        versions: str = "0+", *, tag: int | None = None, default: int = 0, ignorable: bool = True
    ) -> int:
        return cast("int", Field(fixed, versions, tag=tag, default=default, ignorable=ignorable))

    return declare


class _Integer(Protocol):
    def __call__(
        self,
        versions: str = ...,
        *,
        tag: int | None = ...,
        default: int = ...,
        ignorable: bool = ...,
    ) -> int: ...


int8 = _integer("b", 1)
int16 = _integer("h", 2)
int32 = _integer("i", 4)
int64 = _integer("q", 8)


def uuid(versions: str = "0+", *, tag: int | None = None, ignorable: bool = True) -> TopicId:
    """Sixteen raw bytes; zero means none."""
    field = Field(Fixed("16s", 16), versions, tag=tag, default=NO_TOPIC_ID, ignorable=ignorable)
    return cast("TopicId", field)


@overload
def string(
    versions: str = ..., *, tag: int | None = ..., default: str = ..., ignorable: bool = ...
) -> str: ...
@overload
def string(
    versions: str = ...,
    *,
    nullable: str,
    tag: int | None = ...,
    default: str | None = ...,
    ignorable: bool = ...,
) -> str | None: ...
def string(
    versions: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
    default: str | None = "",
    ignorable: bool = True,
) -> str | None:
    field = Field(
        String(), versions, nullable=nullable, tag=tag, default=default, ignorable=ignorable
    )
    return cast("str", field)


def bytestring(versions: str = "0+", *, nullable: str = "none", default: bytes | None = b"") -> Any:
    return Field(Bytes(), versions, nullable=nullable, default=default)


def records(versions: str = "0+", *, nullable: str = "none") -> Any:
    return Field(Records(), versions, nullable=nullable, default=None)


@overload
def array(
    element: type[T] | T, versions: str = ..., *, tag: int | None = ..., ignorable: bool = ...
) -> list[T]: ...
@overload
def array(
    element: type[T] | T,
    versions: str = ...,
    *,
    nullable: str,
    tag: int | None = ...,
    default: tuple[()] | None = ...,
    ignorable: bool = ...,
) -> list[T] | None: ...
def array(
    element: Any,
    versions: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
    default: object = (),
    ignorable: bool = True,
) -> Any:
    """An array of structs, by their class, or of what another declaration says: `array(int32())`.
    Empty by default; null if `default=None` says so."""
    type = element.type if isinstance(element, Field) else Nested(element)
    return Field(
        Array(type), versions, nullable=nullable, tag=tag, default=default, ignorable=ignorable
    )


@overload
def nested(
    element: type[T], versions: str = ..., *, tag: int | None = ..., ignorable: bool = ...
) -> T: ...
@overload
def nested(
    element: type[T],
    versions: str = ...,
    *,
    nullable: str,
    tag: int | None = ...,
    default: None = ...,
) -> T | None: ...
def nested(
    element: Any,
    versions: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
    default: object = _NEW_LIST,
    ignorable: bool = True,
) -> Any:
    """A struct by itself, which must be frozen. Its default is the struct of all defaults; null if
    `default=None` says so."""
    assert element.FROZEN, f"{element.__name__} stands alone as a field: declare it frozen"
    if default is not None:
        default = element()
    return Field(
        Nested(element), versions, nullable=nullable, tag=tag, default=default, ignorable=ignorable
    )
