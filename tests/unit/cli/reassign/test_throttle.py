"""The throttle of replication: set, found and removed."""

from __future__ import annotations

from typing import Any

from ottla.cli.reassign.moves import Move
from ottla.cli.reassign.throttle import clear_throttles, rate_of, set_throttle, throttles
from tests.unit.cli.reassign.fake_cluster import THROTTLES, FakeCluster

LEADER_RATE, FOLLOWER_RATE, LEADER_REPLICAS, FOLLOWER_REPLICAS = THROTTLES
MOVES = [
    Move("clicks", 0, (1, 2), (3, 2), 10),
    Move("clicks", 1, (1, 2), (2, 1), 10),
]


def test_old_replicas_send_and_new_ones_fetch_at_the_rate() -> None:
    fake = FakeCluster()
    admin: Any = fake
    set_throttle(admin, MOVES, 500)
    rates = {LEADER_RATE: "500", FOLLOWER_RATE: "500"}
    assert fake.configs == {
        ("topic", "clicks"): {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:3"},
        ("broker", "1"): rates,
        ("broker", "2"): rates,
        ("broker", "3"): rates,
    }
    assert {change[0] for change in fake.altered if change[1] == "clicks"} == {"APPEND"}


def test_what_was_set_is_found_and_removed() -> None:
    fake = FakeCluster()
    admin: Any = fake
    assert throttles(admin, fake.racks, ["clicks", "views"]) == []
    set_throttle(admin, MOVES, 500)
    found = throttles(admin, fake.racks, ["clicks", "views"])
    assert list(map(str, found)) == ["broker 1", "broker 2", "broker 3", "topic clicks"]
    assert rate_of(found) == 500
    clear_throttles(admin, found)
    assert not any(fake.configs.values())
    assert rate_of([]) is None
