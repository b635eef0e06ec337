"""`ottla groups describe` without a cluster; tests/compat tries it on brokers."""

from __future__ import annotations

import json
import re

import pytest

from ottla.cli.main import main
from tests.unit.cli.groups.fake_admin import FakeAdmin, member


def test_a_group_is_shown_with_offsets_and_members(
    fake: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.members["billing"] = [
        member("m-1", ("clicks", 0), ("clicks", 1), instance_id="i-1"),
        member("m-2"),
    ]

    assert main(["groups", "describe", "billing"]) == 0
    assert capsys.readouterr().out == (
        "billing\n"
        "state        Stable\n"
        "type         classic\n"
        "assignor     range\n"
        "coordinator  1 at localhost:9092\n"
        "lag          6\n"
        "\n"
        "TOPIC   PARTITION  COMMITTED  LATEST  LAG  MEMBER\n"
        "clicks          0          4      10    6  m-1\n"
        "clicks          1          -    1000    -  m-1\n"
        "\n"
        "MEMBER  CLIENT         HOST        INSTANCE  PARTITIONS\n"
        "m-1     client of m-1  /127.0.0.1  i-1       clicks:0,1\n"
        "m-2     client of m-2  /127.0.0.1  -         -\n"
    )


def test_without_names_all_groups_are_shown(
    fake: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.committed["audit"] = {}

    assert main(["groups", "describe", "--json"]) == 0
    assert [group["group"] for group in json.loads(capsys.readouterr().out)] == ["audit", "billing"]


def test_watch(fake: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["groups", "describe", "--watch", "--interval", "0.1", "--samples", "2"]
    assert main(args) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r"^\S+  ", "", line) for line in lines] == [
        "billing  Empty  0 members  lag 6  -",
        "billing  Empty  0 members  lag 6  steady",
    ]
