"""Clean restarts of brokers of a cluster, and one that comes back with an empty disk."""

from __future__ import annotations

import shutil

import pytest

from tests.faults.cluster.conftest import MakeWorkload
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.counts import count


@pytest.mark.timeout(600)
def test_rolling_restart(sqlite_cluster: BrokerCluster, make_workload: MakeWorkload) -> None:
    """By controlled shutdown: no client that tries again hears of an error."""
    with make_workload(sqlite_cluster, "rolling") as load:
        for _ in range(count(full=3, quick=1)):
            for broker in load.cluster.brokers.values():
                load.cluster.wait_until_healed(load.topics)
                broker.restart()
                load.wait_for_progress()
    errors = {client.name: client.errors for client in load.writers if client.errors}
    assert not errors, "producers heard of errors"


@pytest.mark.timeout(600)
def test_a_broker_with_an_empty_disk(
    sqlite_cluster: BrokerCluster, make_workload: MakeWorkload
) -> None:
    """It may not lead before it has fetched everything."""
    with make_workload(sqlite_cluster, "empty-disk") as load:
        for broker_id in load.cluster.brokers if count(full=3, quick=1) > 1 else [1]:
            load.cluster.wait_until_healed(load.topics)
            load.cluster.kill(broker_id)
            shutil.rmtree(load.cluster.brokers[broker_id].data_dir)
            load.cluster.start(broker_id)
            load.wait_for_progress()
