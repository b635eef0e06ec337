from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.messages.update_metadata import UpdateMetadataRequest
from tests.unit.controller.brokers import SimulatedCluster, run
from tests.unit.controller.contexts import P0


def test_a_new_controller_tells_everybody_everything() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3), (3, 2))
        for broker in cluster.brokers.values():
            broker.metadata.clear()
            broker.requests.clear()
        await cluster.observer.delete("/controller")
        await cluster.settle()
        for broker in cluster.brokers.values():
            assert len(broker.metadata) == 2
            told, update = broker.requests
            assert isinstance(told, LeaderAndIsrRequest)
            assert isinstance(update, UpdateMetadataRequest)
            assert (told.type, update.type) == (2, 2)

    run(scenario)


def test_a_broker_without_partitions_is_told_that_it_has_none() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1,))
        broker = await cluster.add(4)
        await cluster.settle()
        told, _ = broker.requests
        assert isinstance(told, LeaderAndIsrRequest)
        assert (told.type, told.topic_states) == (2, [])
        assert broker.metadata[P0].leader == 1
        assert cluster.brokers[2].live_brokers == [1, 2, 3, 4]

    run(scenario)


def test_a_refusal_is_logged_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        broker = cluster.brokers[3]
        known, broker.controller_epoch = broker.controller_epoch, 100
        await cluster.create("t", (1, 3))
        assert P0 not in broker.replicas
        assert cluster.active.id == 1
        broker.controller_epoch = known
        await cluster.observer.delete("/controller")

    run(scenario)
    assert f"broker 3 refused LeaderAndIsrRequest: {ErrorCode.STALE_CONTROLLER_EPOCH.name}" in (
        caplog.text
    )


def test_a_broker_that_says_it_lost_a_disk_is_asked_which_replicas_it_cannot_use() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        cluster.brokers[2].failed_partitions.add(P0)
        for data in (b'{"version":1,"broker":2,"event":1}', b"no JSON"):
            await cluster.observer.create(
                "/log_dir_event_notification/log_dir_event_", data, sequential=True
            )
        await cluster.settle()
        assert (await cluster.state("t")).leader == 3
        assert await cluster.observer.children("/log_dir_event_notification") == []

    run(scenario)


def test_what_it_changes_is_in_the_log_of_changes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "ottla.state_change")

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        caplog.clear()
        await cluster.brokers[2].crash()
        await cluster.settle()

    run(scenario)
    as_controller = [each for each in caplog.messages if "as controller" in each]
    assert as_controller[0] == (
        "broker 1 as controller in epoch 1: t-0 leader 2 to 3, leader epoch 1, ISR 2,3 to 3"
    )
