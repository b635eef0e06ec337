"""Did you mean: which names are near, and how that is said."""

from __future__ import annotations

import pytest

from ottla.cli.suggestions import (
    did_you_mean,
    nearest,
    no_such_group,
    no_such_topic,
)

TOPICS = ["clicks", "views", "eu.shop.orders.v2", "Audit", "__consumer_offsets"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("clik", ["clicks"]),
        ("CLICKS", ["clicks"]),
        ("audit", ["Audit"]),
        ("orders", ["eu.shop.orders.v2"]),
        ("shop", ["eu.shop.orders.v2"]),
        ("consumer_offsets", ["__consumer_offsets"]),
        ("payments", []),
        ("v", []),
        ("", []),
    ],
)
def test_what_is_near(name: str, near: list[str]) -> None:
    assert nearest(name, TOPICS) == near


def test_the_likeliest_comes_first_and_there_are_three_at_most() -> None:
    many = ["clicks-a", "clicks-b", "clicks-c", "clicks-d", "clicks"]

    assert nearest("click", many) == ["clicks"]
    assert len(nearest("clicks-", many)) == 3
    assert nearest("retenton.ms", ["retention.bytes", "retention.ms"]) == ["retention.ms"]


def test_one_two_and_three_names() -> None:
    assert did_you_mean("clik", ["clicks"]) == "did you mean 'clicks'?"
    assert did_you_mean("abc", ["abcd", "abce"]) == "did you mean 'abce' or 'abcd'?"
    assert did_you_mean("abc", ["abcd", "abce", "abcf"]).count(",") == 1
    assert did_you_mean("x", []) == ""


def test_topics_and_groups() -> None:
    assert str(no_such_topic("clik", TOPICS)) == (
        "there is no topic 'clik'; did you mean 'clicks'? "
        "Else create it with `ottla topics create clik`"
    )
    assert "create it with `ottla topics create x` or see" in str(no_such_topic("x", TOPICS))
    assert str(no_such_group("biling", ["billing"])) == (
        "there is no group 'biling'; did you mean 'billing'?"
    )
    assert "see `ottla groups list`" in str(no_such_group("x", ["billing"]))
