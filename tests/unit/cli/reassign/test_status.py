"""`ottla reassign status`."""

from __future__ import annotations

import json

import pytest

from ottla.cli.main import main
from tests.unit.cli.reassign.fake_cluster import FakeCluster

RATE = "leader.replication.throttled.rate"


def test_how_far_it_is(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    fake.move(("views", 0), [3, 2])
    fake.sizes = {(1, "views", 0): 1000, (3, "views", 0): 250}
    fake.configs["broker", "1"] = {RATE: "5000"}
    assert main(["reassign", "status"]) == 0
    assert capsys.readouterr().out == (
        "TOPIC  PARTITION  FROM  TO   COPIED    SIZE\n"
        "views          0  2,1   3,2     25%  1.0 kB\n"
        "\n"
        "1 partition being moved, 750 B left\n"
        "the throttle is 5.0 kB/s for each broker\n"
    )
    assert fake.configs["broker", "1"], "it is still needed"


def test_json(fake: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    fake.move(("views", 0), [3, 2])
    fake.sizes = None
    assert main(["reassign", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "partitions": [
            {
                "topic": "views",
                "partition": 0,
                "from": [2, 1],
                "to": [3, 2],
                "copied_bytes": None,
                "size_bytes": None,
            }
        ],
        "throttle_bytes_s": None,
        "throttle_removed": False,
    }


def test_when_nothing_moves_the_throttle_goes(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.configs["broker", "1"] = {RATE: "5000"}
    assert main(["reassign", "status", "--keep-throttle"]) == 0
    assert capsys.readouterr().out == (
        "no partition is being moved\nthe throttle is 5.0 kB/s for each broker\n"
    )
    assert main(["reassign", "status"]) == 0
    assert capsys.readouterr().out == (
        "no partition is being moved\nremoved the throttle of broker 1\n"
    )
    assert not any(fake.configs.values())
