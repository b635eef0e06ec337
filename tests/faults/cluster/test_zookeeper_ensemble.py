"""Brokers on an ensemble of three ZooKeepers, which loses one: two are a majority, and whoever was
connected to the third goes on with another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import note_data_dirs
from tests.faults.cluster.conftest import MakeWorkload
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.counts import count
from tests.support.zookeeper_ensemble import ZooKeeperEnsemble


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    servers = ZooKeeperEnsemble(tmp_path_factory.mktemp("ensemble"))
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()


@pytest.fixture(scope="module")
def ensemble_cluster(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    ensemble: ZooKeeperEnsemble,
) -> Iterator[BrokerCluster]:
    settings = {"zookeeper.connect": f"{ensemble.address}/ottla"}
    cluster = BrokerCluster(tmp_path_factory.mktemp("on-ensemble"), settings=settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
    note_data_dirs(request.config, [broker.data_dir for broker in cluster.brokers.values()])


@pytest.mark.timeout(900)
def test_one_zookeeper_of_three_lost(
    ensemble_cluster: BrokerCluster, ensemble: ZooKeeperEnsemble, make_workload: MakeWorkload
) -> None:
    """The one that leads the others; and a broker, while it is away."""
    with make_workload(ensemble_cluster, "ensemble") as load:
        for number in range(count(full=5, quick=1)):
            lost = ensemble.leader()
            ensemble.kill(lost)
            load.cluster.create_topic(f"made-without-one-zookeeper-{number}", 1)
            load.wait_for_progress()
            victim = load.cluster.leader_of(load.sources[0])
            load.cluster.kill(victim)
            load.wait_for_progress()
            load.cluster.start(victim)
            ensemble.start(lost)
            load.cluster.wait_until_healed(load.topics)
            load.wait_for_progress()
