"""The network cut between brokers, and between a broker and ZooKeeper, while clients reach all."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pytest

from tests.conftest import note_data_dirs
from tests.faults.cluster.conftest import MakeWorkload
from tests.support.cluster.broker_cluster import SESSION_TIMEOUT_MS, BrokerCluster
from tests.support.cluster.broker_network import BrokerNetwork, missing
from tests.support.cluster.workload import Workload
from tests.support.counts import count
from tests.support.zookeeper_process import ZooKeeperProcess

ZOOKEEPER = 9
LONGER_THAN_A_SESSION_S = 2 * SESSION_TIMEOUT_MS / 1000


@pytest.fixture(scope="module")
def network() -> Iterator[BrokerNetwork]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    network = BrokerNetwork([1, 2, 3, ZOOKEEPER])
    try:
        with network.entered():
            yield network
    finally:
        network.remove()


@pytest.fixture(scope="module")
def cut_cluster(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    network: BrokerNetwork,
) -> Iterator[BrokerCluster]:
    folder = tmp_path_factory.mktemp("network")
    zookeeper = ZooKeeperProcess(folder / "zookeeper", **network.place_of(ZOOKEEPER)._asdict())
    zookeeper.start()
    settings = {"zookeeper.connect": zookeeper.address}
    cluster = BrokerCluster(folder, settings=settings, network=network)
    try:
        cluster.start()
        yield cluster
    finally:
        network.heal()
        cluster.stop()
        zookeeper.stop()
    note_data_dirs(request.config, [broker.data_dir for broker in cluster.brokers.values()])


@pytest.fixture(autouse=True)
def healed_afterwards(network: BrokerNetwork) -> Iterator[None]:
    yield
    network.heal()


def cut_and_heal(
    cluster: BrokerCluster,
    network: BrokerNetwork,
    load: Workload,
    cuts: Iterable[tuple[int, int]],
) -> None:
    """Producers go on while it lasts, and everybody when it is over."""
    for one, other in cuts:
        network.cut(one, other)
    time.sleep(LONGER_THAN_A_SESSION_S)
    load.wait_for_progress(of=[load.producer])
    network.heal()
    load.wait_for_progress()
    cluster.wait_until_healed(load.topics)


@pytest.mark.timeout(600)
def test_two_cut_from_one_another(
    cut_cluster: BrokerCluster, network: BrokerNetwork, make_workload: MakeWorkload
) -> None:
    """Both have their sessions, and the controller reaches both: each takes the other out of its
    ISRs. Transactions whose coordinator is at one side and partitions at the other wait, as with
    Apache Kafka."""
    with make_workload(cut_cluster, "cut-two") as load:
        for _ in range(count(full=3, quick=1)):
            controller = cut_cluster.controller()
            one, other = (each for each in cut_cluster.brokers if each != controller)
            cut_and_heal(cut_cluster, network, load, [(one, other)])


@pytest.mark.timeout(600)
def test_the_controller_cut_from_another(
    cut_cluster: BrokerCluster, network: BrokerNetwork, make_workload: MakeWorkload
) -> None:
    """Nobody is taken for dead. What that broker leads cannot change its ISR, and waits, as with
    Apache Kafka."""
    with make_workload(cut_cluster, "cut-one") as load:
        for _ in range(count(full=3, quick=1)):
            controller = cut_cluster.controller()
            network.cut(controller, 1 + controller % len(cut_cluster.brokers))
            time.sleep(LONGER_THAN_A_SESSION_S)
            network.heal()
            load.wait_for_progress()
            cut_cluster.wait_until_healed(load.topics)


@pytest.mark.timeout(600)
def test_a_leader_cut_from_zookeeper(
    cut_cluster: BrokerCluster, network: BrokerNetwork, make_workload: MakeWorkload
) -> None:
    """It is taken for dead, while its followers and clients still reach it. A transaction that it
    coordinates waits until it hears of its successor, as with Apache Kafka."""
    with make_workload(cut_cluster, "cut-zk") as load:
        for _ in range(count(full=3, quick=1)):
            leader = cut_cluster.leader_of(load.sources[0])
            cut_and_heal(cut_cluster, network, load, [(leader, ZOOKEEPER)])


@pytest.mark.timeout(600)
def test_the_controller_cut_from_zookeeper(
    cut_cluster: BrokerCluster, network: BrokerNetwork, make_workload: MakeWorkload
) -> None:
    """Another one is elected; the old one does nothing that counts."""
    with make_workload(cut_cluster, "cut-controller") as load:
        cut_and_heal(cut_cluster, network, load, [(cut_cluster.controller(), ZOOKEEPER)])


@pytest.mark.timeout(600)
def test_a_leader_cut_from_everyone_but_clients(
    cut_cluster: BrokerCluster, network: BrokerNetwork, make_workload: MakeWorkload
) -> None:
    with make_workload(cut_cluster, "cut-all") as load:
        leader = cut_cluster.leader_of(load.sources[0])
        others = [each for each in [*cut_cluster.brokers, ZOOKEEPER] if each != leader]
        cut_and_heal(cut_cluster, network, load, [(leader, each) for each in others])
