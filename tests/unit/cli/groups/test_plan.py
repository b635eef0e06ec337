from __future__ import annotations

import click
import pytest

from ottla.cli.groups.plan import (
    Move,
    offsets_in_file,
    planned,
    selection_of_all,
    shifted,
)


@pytest.mark.parametrize(
    ("wanted", "new", "note"),
    [
        (10, 10, ""),
        (15, 15, ""),
        (20, 20, ""),
        (9, 10, "9 is before the earliest"),
        (-3, 10, "-3 is before the earliest"),
        (21, 20, "21 is after the latest"),
    ],
)
def test_a_plan_stays_within_the_log(wanted: int, new: int, note: str) -> None:
    move = planned(("clicks", 1), 12, wanted, earliest=10, latest=20)

    assert move == Move("clicks", 1, 12, new, 10, 20, note)


def test_a_selection_of_partitions_one_by_one() -> None:
    offsets = {("views", 1): 5, ("clicks", 3): 0, ("views", 0): 7}

    assert selection_of_all(offsets) == {"clicks": [3], "views": [0, 1]}


def test_a_file_of_offsets() -> None:
    lines = ["clicks,0,5\n", "\n", " views , 3 , 7 \r\n"]

    assert offsets_in_file(lines) == {("clicks", 0): 5, ("views", 3): 7}


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["clicks,0,5", "clicks,1"], "line 2 is not topic,partition,offset: 'clicks,1'"),
        (["group,clicks,0,5"], "line 1 is no"),
        (["clicks,0,-1"], "line 1 is no"),
        (["clicks,0,5", "clicks,0,6"], "line 2 names clicks:0 again"),
        ([], "names no partition"),
    ],
)
def test_what_is_no_file_of_offsets(lines: list[str], complaint: str) -> None:
    with pytest.raises(click.BadParameter, match=complaint):
        offsets_in_file(lines)


def test_shifts() -> None:
    committed = {("clicks", 0): 5, ("clicks", 1): 7, ("other", 0): 1}

    assert shifted([("clicks", 0), ("clicks", 1)], committed, -6) == {
        ("clicks", 0): -1,
        ("clicks", 1): 1,
    }
    with pytest.raises(click.BadParameter, match="nothing is committed in clicks:2, views:0"):
        shifted([("clicks", 0), ("clicks", 2), ("views", 0)], committed, 1)
