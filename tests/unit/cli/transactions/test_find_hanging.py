"""`ottla transactions find-hanging` without a cluster; tests/compat tries it on brokers."""

from __future__ import annotations

import json

import pytest

from ottla.cli.main import main
from tests.unit.cli.transactions.fake_cluster import (
    FakeCluster,
    json_of,
    producer,
)

OPEN = [producer(7, start_offset=5, age_minutes=20), producer(8)]


def test_find_hanging(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    fake.producers["clicks", 1] = OPEN

    assert main(["transactions", "find-hanging"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [
        ["clicks", "1", "5", "7", "3", "-", "2023-11-14T21:53:20.000Z", "20", "min", "-"]
    ]

    longer = ["--max-transaction-timeout", "21"]
    assert json_of(capsys, "transactions", "find-hanging", *longer) == []


def test_a_search_that_did_not_see_everything_says_so(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.leaders["views", 0] = -1

    assert main(["transactions", "find-hanging", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == []
    assert err == "ottla: could not look at views:0: it has no leader\n"


def test_a_partition_is_of_a_topic(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transactions", "find-hanging", "--partition", "0"]) == 2
    assert "--partition is of which --topic?" in capsys.readouterr().err
