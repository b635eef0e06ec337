"""Brokers that stand still (SIGSTOP) for longer than their session, and come back: what a zombie
leader, coordinator or controller does then does not count."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.faults.cluster.conftest import MakeWorkload
from tests.faults.cluster.test_kills import (
    controller,
    follower,
    group_coordinator,
    leader,
    transaction_coordinator,
)
from tests.support.cluster.broker_cluster import SESSION_TIMEOUT_MS, BrokerCluster
from tests.support.cluster.workload import Workload
from tests.support.counts import IS_FULL, count

ALL = [leader, controller, follower, group_coordinator, transaction_coordinator]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("victims", ALL if IS_FULL else ALL[:2])
def test_paused_for_longer_than_the_session(
    sqlite_cluster: BrokerCluster,
    make_workload: MakeWorkload,
    victims: Callable[[Workload], list[int]],
) -> None:
    with make_workload(sqlite_cluster, f"pause-{victims.__name__}") as load:
        for _ in range(count(full=3, quick=1)):
            load.cluster.pause(*victims(load))
            time.sleep(2 * SESSION_TIMEOUT_MS / 1000)
            load.wait_for_progress()
            load.cluster.resume()
            load.wait_for_progress()
            load.cluster.wait_until_healed(load.topics)


@pytest.mark.timeout(900)
def test_all_paused(sqlite_cluster: BrokerCluster, make_workload: MakeWorkload) -> None:
    """As a laptop that sleeps."""
    with make_workload(sqlite_cluster, "pause-all") as load:
        load.cluster.pause(*load.cluster.brokers)
        time.sleep(2 * SESSION_TIMEOUT_MS / 1000)
        load.cluster.resume()
        load.wait_for_progress()
        load.cluster.wait_until_healed(load.topics)
