"""Where reading begins."""

from __future__ import annotations

from typing import Any

import click
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

from ottla.cli.consume.positions import Start, checked_offset, positions
from ottla.cli.errors import Failure
from tests.unit.cli.consume.fakes import FakeConsumer


def offsets(start: Start) -> list[int]:
    consumer: Any = FakeConsumer()
    return [one.offset for one in positions(consumer, [("t", 0)], start)]


@pytest.mark.parametrize("text", ["-1", "x", "end", "end-", "1.5"])
def test_no_offset_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.BadParameter):
        checked_offset(text)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        (None, OFFSET_END),
        ("latest", OFFSET_END),
        ("earliest", OFFSET_BEGINNING),
        ("10", 10),
        ("50", 50),
        ("end-5", 45),
        ("end-100", 10),
    ],
)
def test_offsets(text: str | None, offset: int) -> None:
    assert offsets(Start(checked_offset(text))) == [offset]


def test_a_time_is_looked_up() -> None:
    assert offsets(Start(timestamp=5)) == [33]


@pytest.mark.parametrize("text", ["9", "51"])
def test_an_offset_out_of_range_says_the_range(text: str) -> None:
    with pytest.raises(Failure, match="t-0 has offsets 10 to 50"):
        offsets(Start(text))
