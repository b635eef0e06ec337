"""Values on the command line."""

from __future__ import annotations

import time

import click
import pytest

from ottla.cli.options import bytes_of, duration_ms, iso_of, pairs, timestamp_ms


def test_pairs_keep_everything_behind_the_first_equals_sign() -> None:
    assert pairs(["a=1", "b=x=y", "c="], "--config") == {"a": "1", "b": "x=y", "c": ""}


@pytest.mark.parametrize("texts", [["a"], ["=1"], [" =1"], ["a=1", "a=2"]])
def test_what_is_no_pair_is_a_usage_error_that_names_the_option(texts: list[str]) -> None:
    with pytest.raises(click.BadParameter) as caught:
        pairs(texts, "--config")

    assert "--config" in caught.value.format_message()


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("1", 1), ("1000000", 10**6), ("10MB", 10**7), ("1.5k", 1500), ("2 GB/s", 2 * 10**9)],
)
def test_a_number_of_bytes(text: str, size_bytes: int) -> None:
    assert bytes_of(text, "--throttle") == size_bytes


@pytest.mark.parametrize("text", ["", "0", "-1", "MB", "10TiB", "fast"])
def test_what_is_no_number_of_bytes(text: str) -> None:
    with pytest.raises(click.BadParameter, match="not a number of bytes"):
        bytes_of(text, "--throttle")


def test_a_time_is_milliseconds_or_iso_8601() -> None:
    assert timestamp_ms("1700000000123") == 1_700_000_000_123
    assert timestamp_ms("2023-11-14T22:13:20Z") == 1_700_000_000_000
    assert timestamp_ms("2023-11-14T22:13:20.5+00:00") == 1_700_000_000_500
    assert timestamp_ms("1969-07-20T20:17:00Z") == 0


def test_a_time_without_zone_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert timestamp_ms("2023-11-15T07:13:20") == 1_700_000_000_000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["yesterday", "-5", "", "12:00", "9" * 20])
def test_no_time_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.BadParameter):
        timestamp_ms(text)


def test_a_time_is_shown_in_utc() -> None:
    assert iso_of(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("P7D", 604_800_000),
        ("PT2H30M", 9_000_000),
        ("P1DT1.5S", 86_401_500),
        ("P1W", 604_800_000),
        ("7d", 604_800_000),
        ("2h30m", 9_000_000),
        ("90s", 90_000),
        ("0s", 0),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert duration_ms(text, "--by-duration") == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "7", "7 d", "-1h", "2h30", "P1Y", "soon", "p1d"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration such as") as caught:
        duration_ms(text, "--by-duration")

    assert "--by-duration" in caught.value.format_message()


def test_a_duration_that_no_clock_has() -> None:
    with pytest.raises(click.BadParameter, match="too long"):
        duration_ms("99999999999d", "--by-duration")
