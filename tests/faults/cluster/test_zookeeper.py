"""ZooKeeper that is killed, paused and restarted: records flow all the same, and what happens
meanwhile to brokers is made good when it is back."""

from __future__ import annotations

import signal
import time

import pytest

from tests.faults.cluster.conftest import MakeWorkload
from tests.support.cluster.broker_cluster import SESSION_TIMEOUT_MS, BrokerCluster
from tests.support.zookeeper_process import ZooKeeperProcess

LONGER_THAN_A_SESSION_S = 2 * SESSION_TIMEOUT_MS / 1000


@pytest.mark.timeout(600)
def test_zookeeper_killed(
    zookeeper_cluster: BrokerCluster, own_zookeeper: ZooKeeperProcess, make_workload: MakeWorkload
) -> None:
    with make_workload(zookeeper_cluster, "zk-kill") as load:
        own_zookeeper.kill()
        time.sleep(LONGER_THAN_A_SESSION_S)
        load.wait_for_progress()  # Reads and writes go on without it.
        own_zookeeper.start()
        load.wait_for_progress()
        load.cluster.wait_until_healed(load.topics)
        load.cluster.create_topic("made-after-zookeeper-was-away", 1)


@pytest.mark.timeout(600)
def test_zookeeper_paused(
    zookeeper_cluster: BrokerCluster, own_zookeeper: ZooKeeperProcess, make_workload: MakeWorkload
) -> None:
    with make_workload(zookeeper_cluster, "zk-pause") as load:
        own_zookeeper.signal_java(signal.SIGSTOP)
        try:
            time.sleep(LONGER_THAN_A_SESSION_S)
            load.wait_for_progress()
        finally:
            own_zookeeper.signal_java(signal.SIGCONT)
        load.wait_for_progress()
        load.cluster.wait_until_healed(load.topics)


@pytest.mark.timeout(600)
def test_a_leader_killed_while_zookeeper_restarts(
    zookeeper_cluster: BrokerCluster, own_zookeeper: ZooKeeperProcess, make_workload: MakeWorkload
) -> None:
    with make_workload(zookeeper_cluster, "zk-restart") as load:
        victim = load.cluster.leader_of(load.sources[0])
        own_zookeeper.kill()
        load.cluster.kill(victim)
        own_zookeeper.start()
        load.wait_for_progress()
        load.cluster.start(victim)
        load.cluster.wait_until_healed(load.topics)
