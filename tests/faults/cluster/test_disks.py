"""A disk of one broker of three that takes no more, and one that is lost: others lead what was led
there, and it catches up when it has its disk again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import note_data_dirs
from tests.faults.cluster.conftest import MakeWorkload
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.cluster.small_disk import SmallDisk, missing
from tests.support.cluster.workload import Workload
from tests.support.counts import count

DISK_BYTES = 64 << 20
PATIENCE_S = 60
FULL, TWO_DISKS = 1, 2
"""The broker whose only disk is small, and the one with two disks."""


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDisk]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    disk = SmallDisk(tmp_path_factory.mktemp("disks") / "small", DISK_BYTES)
    yield disk
    disk.remove()


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, small_disk: SmallDisk
) -> Iterator[BrokerCluster]:
    folder = tmp_path_factory.mktemp("on-disks")
    cluster = BrokerCluster(folder)
    cluster.brokers[FULL].data_dirs = [small_disk.path / "data"]
    cluster.brokers[TWO_DISKS].data_dirs = [folder / "one", folder / "two"]
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
    # That of the small disk is gone when they are read.
    brokers = [broker for broker_id, broker in cluster.brokers.items() if broker_id != FULL]
    note_data_dirs(request.config, [path for broker in brokers for path in broker.data_dirs])


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.02)


@pytest.mark.timeout(900)
def test_the_only_disk_of_a_broker_is_full(
    cluster: BrokerCluster, small_disk: SmallDisk, make_workload: MakeWorkload
) -> None:
    """There is nothing that it could serve, so it ends; started with room on its disk, it goes on
    from what it had."""
    broker = cluster.brokers[FULL]
    with make_workload(cluster, "disk-full") as load:
        for _ in range(count(full=5, quick=1)):
            small_disk.fill()
            wait_until(lambda: not broker.is_running, "it serves on from a full disk")
            assert "No space left on device" in broker.log_text()
            broker.kill()  # It has ended; now it may be started again.
            load.wait_for_progress()
            small_disk.free()
            cluster.start(FULL)
            cluster.wait_until_healed(load.topics)
            load.wait_for_progress()
    assert "Traceback" not in broker.log_text()


@pytest.mark.timeout(900)
def test_one_of_two_disks_of_a_broker_is_lost(
    cluster: BrokerCluster, make_workload: MakeWorkload
) -> None:
    """It serves on what it has on the other one. Started again with an empty disk, it fetches what
    it had there."""
    with make_workload(cluster, "disk-lost") as load:
        for number in range(count(full=5, quick=1)):
            lose_disk(cluster, load, number)
            load.wait_for_progress()
            cluster.brokers[TWO_DISKS].restart()
            cluster.wait_until_healed(load.topics)
            load.wait_for_progress()
    assert "Traceback" not in cluster.brokers[TWO_DISKS].log_text()


def lose_disk(cluster: BrokerCluster, load: Workload, number: int) -> None:
    broker = cluster.brokers[TWO_DISKS]
    lost = broker.data_dirs[number % 2]
    there = [each for each in load.sources + load.targets if (lost / str(each)).exists()]
    assert there, "each disk has some"
    before = len(broker.log_text())
    lost.rename(lost.with_name(f"lost-{number}"))  # Files that are open stay so.
    offline = f"log dir {lost} is offline"
    wait_until(lambda: offline in broker.log_text()[before:], "it did not notice")
    wait_until(
        lambda: all(cluster.leader_of(each) != TWO_DISKS for each in there),
        "it leads from a lost disk",
    )
    assert broker.is_running
