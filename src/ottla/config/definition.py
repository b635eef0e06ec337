"""What a setting is: its name, type, default, limits, and how it may change.

The names, types, defaults and limits are Apache Kafka 4.3's (tests compare them with a frozen
description of it). A setting is declared once, as the default of a dataclass field:

    retention_ms: int = setting(LONG, 604_800_000, at_least(-1), doc="How long ...")

The field's name with dots for underscores is the setting's name. `settings_of(cls)` then reads
the declarations back.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import Field, field, fields
from enum import IntEnum
from typing import Any, Literal, TypeVar

from ottla.kernel.errors import ErrorCode, KafkaError

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

SettingValue = bool | int | float | str | tuple[str, ...] | None


_C = TypeVar("_C")


class ConfigType(IntEnum):
    """DescribeConfigs' `config_type`."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


BOOLEAN = ConfigType.BOOLEAN
STRING = ConfigType.STRING
INT = ConfigType.INT
SHORT = ConfigType.SHORT
LONG = ConfigType.LONG
DOUBLE = ConfigType.DOUBLE
LIST = ConfigType.LIST
CLASS = ConfigType.CLASS
PASSWORD = ConfigType.PASSWORD


class ConfigSource(IntEnum):
    """DescribeConfigs' `config_source`."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


Importance = Literal["high", "medium", "low"]

Change = Literal["read-only", "per-broker", "cluster-wide"]
"""How a broker setting may change while the broker runs (KIP-226)."""

READ_ONLY: Change = "read-only"
PER_BROKER: Change = "per-broker"
CLUSTER_WIDE: Change = "cluster-wide"


class InvalidSetting(KafkaError):
    """A value that a setting cannot have. In a file it stops the start; in a request it is
    INVALID_CONFIG."""

    def __init__(self, name: str, value: object, reason: str) -> None:
        super().__init__(
            ErrorCode.INVALID_CONFIG, f"Invalid value {value} for configuration {name}: {reason}"
        )
        self.name = name
        self.reason = reason


class UnknownSetting(KafkaError):
    """A name that no setting has. Names the nearest one, so that a typing error is found at a
    glance."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        import difflib  # only ever needed on the way to an error

        near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f". Did you mean {near[0]}?" if near else ""
        super().__init__(ErrorCode.INVALID_CONFIG, f"Unknown {kind} config name: {name}{hint}")
        self.name = name


class Validator:
    """What a setting's value must be beyond its type. `str()` tells a person what is allowed."""

    __slots__ = ()

    def check(self, name: str, value: Any) -> None:
        """Raises InvalidSetting. `value` has the setting's type."""
        raise NotImplementedError


class Between(Validator):
    __slots__ = ("high", "low")

    def __init__(self, low: float, high: float | None = None) -> None:
        self.low = low
        self.high = high

    def check(self, name: str, value: Any) -> None:
        if value < self.low:
            raise InvalidSetting(name, value, f"Value must be at least {self.low}")
        if self.high is not None and value > self.high:
            raise InvalidSetting(name, value, f"Value must be no more than {self.high}")

    def __str__(self) -> str:
        if self.high is None:
            return f"at least {self.low}"
        return f"from {self.low} to {self.high}"


def at_least(low: float) -> Between:
    return Between(low)


def between(low: float, high: float) -> Between:
    return Between(low, high)


class OneOf(Validator):
    __slots__ = ("allowed", "ignore_case")

    def __init__(self, *allowed: str, ignore_case: bool = False) -> None:
        self.allowed = allowed
        self.ignore_case = ignore_case

    def check(self, name: str, value: Any) -> None:
        if value in self.allowed:
            return
        if self.ignore_case and value is not None and value.upper() in self.allowed:
            return
        case = " (case insensitive)" if self.ignore_case else ""
        raise InvalidSetting(name, value, f"String must be one of{case}: {', '.join(self.allowed)}")

    def __str__(self) -> str:
        return "one of " + ", ".join(self.allowed)


class Items(Validator):
    """A list without empty items; of the `allowed` ones only, where given (KIP-1161)."""

    __slots__ = ("allowed", "empty_allowed")

    def __init__(self, *allowed: str, empty_allowed: bool = True) -> None:
        self.allowed = allowed
        self.empty_allowed = empty_allowed

    def check(self, name: str, value: Any) -> None:
        if value is None:
            return
        if not value and not self.empty_allowed:
            raise InvalidSetting(name, "[]", "The list must not be empty")
        for item in value:
            if not item:
                raise InvalidSetting(name, shown(value), "Items must not be empty")
            if self.allowed and item not in self.allowed:
                raise InvalidSetting(
                    name, item, f"String must be one of: {', '.join(self.allowed)}"
                )

    def __str__(self) -> str:
        if self.allowed:
            return "a list of " + ", ".join(self.allowed)
        return "a list"


def shown(items: tuple[str, ...]) -> str:
    return "[" + ", ".join(items) + "]"


class Setting:
    """One setting. Made at import, never changed; the tables of a process share them."""

    __slots__ = (
        "change",
        "default",
        "doc",
        "importance",
        "internal",
        "name",
        "synonyms",
        "type",
        "validator",
    )

    def __init__(
        self,
        type_: ConfigType,
        default: SettingValue,
        validator: Validator | None,
        doc: str,
        importance: Importance,
        change: Change,
        synonyms: tuple[str, ...],
        internal: bool,
    ) -> None:
        self.name = ""
        self.type = type_
        self.default = default
        self.validator = validator
        self.doc = doc
        self.importance = importance
        self.change = change
        self.synonyms = synonyms
        """Of a topic setting: the broker settings that it falls back to, in Kafka's order."""
        self.internal = internal
        """Kafka's own tests use it; accepted, never described."""

    @property
    def is_sensitive(self) -> bool:
        return self.type is PASSWORD

    def parse(self, text: str, name: str = "") -> SettingValue:
        """`name` is what an error calls the setting, where that is not its own name."""
        value: SettingValue = _PARSERS[self.type](name or self.name, text.strip())
        if self.validator is not None:
            self.validator.check(name or self.name, value)
        return value

    def __repr__(self) -> str:
        return f"Setting({self.name})"


def setting(
    type_: ConfigType,
    default: SettingValue,
    validator: Validator | None = None,
    *,
    doc: str,
    importance: Importance = "medium",
    change: Change = READ_ONLY,
    synonyms: tuple[str, ...] = (),
    internal: bool = False,
) -> Any:
    """A dataclass field that declares a setting. (Any: the field's annotation is its type.)"""
    if validator is None and type_ is LIST:
        validator = _ANY_ITEMS
    declared = Setting(type_, default, validator, doc, importance, change, synonyms, internal)
    return field(default=default, metadata={"setting": declared})


_ANY_ITEMS = Items()


def settings_of(cls: type[Any]) -> dict[str, Setting]:
    """The settings that a dataclass declares, by name, sorted as Kafka's tools list them."""
    found: dict[str, Setting] = {}
    for declared in sorted(fields(cls), key=lambda f: f.name):
        it: Setting | None = declared.metadata.get("setting")
        if it is not None:
            it.name = declared.name.replace("_", ".")
            found[it.name] = it
    return found


def settings_group(cls: type[_C]) -> type[_C]:
    """For a class that declares settings without being a dataclass (its instances have two
    hundred of them: a generated `__init__` would cost the start of the broker 6 ms). Each
    attribute becomes its default, and `cls.SETTINGS` the declarations."""
    found: dict[str, Setting] = {}
    for attribute, declared in list(vars(cls).items()):
        if isinstance(declared, Field):
            it: Setting = declared.metadata["setting"]
            it.name = attribute.replace("_", ".")
            found[it.name] = it
            setattr(cls, attribute, it.default)
    cls.SETTINGS = found  # type: ignore[attr-defined]
    return cls


def value_text(value: SettingValue) -> str | None:
    """As Kafka writes it in DescribeConfigs."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_double_text(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _java_double_text(value: float) -> str:
    """`Double.toString`: never without a fraction, and `E` without a plus sign."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    magnitude = abs(value)
    if magnitude == 0 or 1e-3 <= magnitude < 1e7:
        digits = format(value, "f") if "e" in repr(value) else repr(value)
        return digits if "." in digits else digits + ".0"
    mantissa, _, exponent = format(value, ".17g").partition("e")
    for precision in range(17):
        shortest = format(value, f".{precision}e")
        if float(shortest) == value:
            mantissa, _, exponent = shortest.partition("e")
            break
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _parse_boolean(name: str, text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise InvalidSetting(name, text, "Expected value to be either true or false")
    return lowered == "true"


def _parse_whole(name: str, text: str, bits: int, type_name: str) -> int:
    # Not int(text) alone: that also takes 1_000 and digits of other scripts.
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits.isascii() and digits.isdigit() and len(digits) < 20:
        value = int(text)
        if -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            return value
    raise InvalidSetting(name, text, f"Not a number of type {type_name}")


def _parse_int(name: str, text: str) -> int:
    return _parse_whole(name, text, 32, "INT")


def _parse_long(name: str, text: str) -> int:
    return _parse_whole(name, text, 64, "LONG")


def _parse_short(name: str, text: str) -> int:
    return _parse_whole(name, text, 16, "SHORT")


def _parse_double(name: str, text: str) -> float:
    # What Java takes: also a trailing d or f; not 1_000, and these two only as spelled here.
    special = text.lstrip("+-") in ("NaN", "Infinity")
    number = text[:-1] if text[-1:] in ("d", "D", "f", "F") else text
    plain = number.isascii() and "_" not in number and number[-1:] in "0123456789."
    if special or plain:
        with suppress(ValueError):
            return float(number)
    raise InvalidSetting(name, text, "Not a number of type DOUBLE")


def _parse_list(name: str, text: str) -> tuple[str, ...]:
    # A repeated item counts once, in the place of its first mention (KIP-1161).
    return tuple(dict.fromkeys(item.strip() for item in text.split(","))) if text else ()


def _parse_text(name: str, text: str) -> str:
    return text


_PARSERS: dict[ConfigType, Any] = {
    BOOLEAN: _parse_boolean,
    STRING: _parse_text,
    INT: _parse_int,
    SHORT: _parse_short,
    LONG: _parse_long,
    DOUBLE: _parse_double,
    LIST: _parse_list,
    CLASS: _parse_text,
    PASSWORD: _parse_text,
}
