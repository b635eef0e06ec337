"""Three brokers for the tests of one file, which leave all of them running."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import note_data_dirs
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.cluster.workload import Workload
from tests.support.zookeeper_process import ZooKeeperProcess

SEED = 20_261_117

MakeWorkload = Callable[[BrokerCluster, str], Workload]


@pytest.fixture(scope="module")
def sqlite_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerCluster]:
    yield from _run(request, BrokerCluster(tmp_path_factory.mktemp("on-sqlite")))


@pytest.fixture(scope="module")
def zookeeper_cluster(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    own_zookeeper: ZooKeeperProcess,
) -> Iterator[BrokerCluster]:
    folder = tmp_path_factory.mktemp("on-zookeeper")
    settings = {"zookeeper.connect": f"{own_zookeeper.address}/{folder.name}"}
    yield from _run(request, BrokerCluster(folder, settings=settings))


@pytest.fixture(scope="module")
def own_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """One that a test may kill."""
    server = ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.stop()


def _run(request: pytest.FixtureRequest, cluster: BrokerCluster) -> Iterator[BrokerCluster]:
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
    note_data_dirs(request.config, [broker.data_dir for broker in cluster.brokers.values()])


@pytest.fixture
def make_workload(tmp_path: Path) -> MakeWorkload:
    """Of topics, groups and transactional ids that begin with a name."""

    def make(cluster: BrokerCluster, name: str) -> Workload:
        return Workload(cluster, name, tmp_path, SEED)

    return make
