from __future__ import annotations

import pytest

from ottla.config.definition import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    SHORT,
    STRING,
    ConfigType,
    InvalidSetting,
    Items,
    OneOf,
    Setting,
    SettingValue,
    UnknownSetting,
    Validator,
    at_least,
    between,
    setting,
    settings_group,
    value_text,
)
from ottla.kernel.errors import ErrorCode


def make(type_: ConfigType, validator: Validator | None = None) -> Setting:
    @settings_group
    class Group:
        some_setting: object = setting(type_, None, validator, doc="A setting.")

    declared: dict[str, Setting] = Group.SETTINGS  # type: ignore[attr-defined]
    return declared["some.setting"]


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (BOOLEAN, " True ", True),
        (BOOLEAN, "FALSE", False),
        (INT, " -2147483648", -2147483648),
        (INT, "+7", 7),
        (LONG, "9223372036854775807", 9223372036854775807),
        (SHORT, "-32768", -32768),
        (DOUBLE, "1e-3", 0.001),
        (DOUBLE, ".5d", 0.5),
        (DOUBLE, "-Infinity", float("-inf")),
        (STRING, "  a b ", "a b"),
        (LIST, "", ()),
        (LIST, " a ,b,  c", ("a", "b", "c")),
        (LIST, "a,b,a", ("a", "b")),
    ],
)
def test_text_becomes_a_value_of_the_type(
    type_: ConfigType, text: str, value: SettingValue
) -> None:
    assert make(type_).parse(text) == value


@pytest.mark.parametrize(
    ("type_", "text", "reason"),
    [
        (BOOLEAN, "yes", "Expected value to be either true or false"),
        (BOOLEAN, "", "Expected value to be either true or false"),
        (INT, "2147483648", "Not a number of type INT"),
        (INT, "1_000", "Not a number of type INT"),
        (INT, "1.0", "Not a number of type INT"),
        (INT, "٣", "Not a number of type INT"),
        (INT, "", "Not a number of type INT"),
        (INT, "--1", "Not a number of type INT"),
        (LONG, "9" * 5000, "Not a number of type LONG"),
        (SHORT, "32768", "Not a number of type SHORT"),
        (DOUBLE, "inf", "Not a number of type DOUBLE"),
        (DOUBLE, "1_0.5", "Not a number of type DOUBLE"),
        (DOUBLE, "", "Not a number of type DOUBLE"),
        (DOUBLE, "1e", "Not a number of type DOUBLE"),
        (LIST, "a,,b", "Items must not be empty"),
    ],
)
def test_a_bad_value_is_refused_with_name_value_and_reason(
    type_: ConfigType, text: str, reason: str
) -> None:
    with pytest.raises(InvalidSetting, match=reason) as refused:
        make(type_).parse(text)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert refused.value.name == "some.setting"
    assert "for configuration some.setting: " in str(refused.value)


@pytest.mark.parametrize(
    ("type_", "validator", "text", "reason"),
    [
        (INT, at_least(3), "2", "Value must be at least 3"),
        (INT, between(1, 9), "10", "Value must be no more than 9"),
        (STRING, OneOf("a", "b"), "A", "String must be one of: a, b"),
        (STRING, OneOf("A", "B", ignore_case=True), "c", "one of .case insensitive.: A, B"),
        (LIST, Items("a", "b"), "a,c", "Invalid value c .*String must be one of: a, b"),
        (LIST, Items(empty_allowed=False), "", "The list must not be empty"),
    ],
)
def test_a_value_outside_of_the_limits_is_refused(
    type_: ConfigType, validator: Validator, text: str, reason: str
) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        make(type_, validator).parse(text)


def test_a_choice_may_ignore_case() -> None:
    assert make(STRING, OneOf("UPGRADE", ignore_case=True)).parse("Upgrade") == "Upgrade"


@pytest.mark.parametrize(
    ("validator", "text"),
    [
        (at_least(0), "at least 0"),
        (between(1, 9), "from 1 to 9"),
        (OneOf("a", "b"), "one of a, b"),
        (Items("a", "b"), "a list of a, b"),
        (Items(), "a list"),
    ],
)
def test_limits_can_be_told_to_a_person(validator: Validator, text: str) -> None:
    assert str(validator) == text


def test_the_nearest_known_name_is_named() -> None:
    error = UnknownSetting("broker", "log.retension.ms", ["log.retention.ms", "log.roll.ms"])
    assert error.name == "log.retension.ms"
    assert str(error).endswith("Did you mean log.retention.ms?")


def test_a_name_like_no_other_gets_no_hint() -> None:
    assert "?" not in str(UnknownSetting("topic", "xyz", ["log.retention.ms"]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (False, "false"),
        (-1, "-1"),
        ("text", "text"),
        (("a", "b"), "a,b"),
        ((), ""),
        # As Java's Double.toString writes them.
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (1234567.0, "1234567.0"),
        (1e7, "1.0E7"),
        (123456789.0, "1.23456789E8"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_values_are_written_as_kafka_writes_them(value: SettingValue, text: str | None) -> None:
    assert value_text(value) == text
