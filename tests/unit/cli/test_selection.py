"""Partitions as a command line names them."""

from __future__ import annotations

from typing import cast

import click
import pytest
from confluent_kafka.admin import AdminClient

from ottla.cli.errors import Failure
from ottla.cli.selection import existing_partitions, selection_of, within
from tests.unit.cli.groups.fake_admin import FakeAdmin


def test_selections() -> None:
    assert selection_of(["clicks", "views:2,0,2"]) == {"clicks": None, "views": [0, 2]}
    assert selection_of([]) == {}


@pytest.mark.parametrize("text", ["", ":1", "clicks:", "clicks:a", "clicks:1,", "clicks:-1"])
def test_what_is_no_selection(text: str) -> None:
    with pytest.raises(click.BadParameter, match="neither TOPIC nor TOPIC:0,1"):
        selection_of([text])


def test_a_topic_is_selected_once() -> None:
    with pytest.raises(click.BadParameter, match="'clicks' is given twice"):
        selection_of(["clicks", "clicks:1"])


def test_what_a_selection_takes_of_partitions() -> None:
    there = [("views", 1), ("clicks", 1), ("clicks", 0), ("views", 0), ("other", 0)]

    assert within({"clicks": None, "views": [1, 9]}, there) == [
        ("clicks", 0),
        ("clicks", 1),
        ("views", 1),
    ]


def test_what_is_selected_must_exist() -> None:
    admin = cast(
        "AdminClient", FakeAdmin(latest={("clicks", 0): 10, ("clicks", 1): 20, ("views", 0): 1})
    )

    assert existing_partitions(admin, {"views": None, "clicks": [1]}) == [
        ("clicks", 1),
        ("views", 0),
    ]
    with pytest.raises(Failure, match="there is no topic 'other'"):
        existing_partitions(admin, {"other": None})
    with pytest.raises(Failure, match="'clicks' has 2 partitions, and no 2, 5 among them"):
        existing_partitions(admin, {"clicks": [0, 2, 5]})
