"""kill -9 of brokers under one `ottla start --brokers 3 --restart`, on the file that they share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import note_data_dirs
from tests.faults.cluster.conftest import MakeWorkload
from tests.faults.cluster.test_kills import controller, leader
from tests.support.cluster.supervised_cluster import SupervisedCluster
from tests.support.cluster.workload import Workload
from tests.support.counts import IS_FULL, count


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SupervisedCluster]:
    cluster = SupervisedCluster(tmp_path_factory.mktemp("supervised"))
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()
    note_data_dirs(request.config, [broker.data_dir for broker in cluster.brokers.values()])


def everyone(load: Workload) -> list[int]:
    return list(load.cluster.brokers)


@pytest.mark.timeout(900)
def test_brokers_killed_under_their_supervisor(
    cluster: SupervisedCluster, make_workload: MakeWorkload
) -> None:
    """One that leads, the controller, and all at once; nobody but the supervisor starts them."""
    with make_workload(cluster, "supervised") as load:
        for _ in range(count(full=4, quick=1)):
            for victims in (leader, controller, everyone) if IS_FULL else (leader, everyone):
                killed = victims(load)
                cluster.kill(*killed)
                if len(killed) == 1:
                    load.wait_for_progress()
                cluster.start(*killed)
                cluster.wait_until_healed(load.topics)
                load.wait_for_progress()
