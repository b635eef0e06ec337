from __future__ import annotations

from collections.abc import Mapping

import pytest

from ottla.controller.configs import Plan
from ottla.coordination import znodes
from ottla.kernel.errors import ErrorCode, KafkaError
from tests.unit.controller.brokers import SimulatedCluster, run
from tests.unit.controller.contexts import P0


def setting(**values: str | None) -> Plan:
    """Sets these, and takes out those that are None."""

    def plan(old: Mapping[str, str]) -> dict[str, str]:
        new = {**old, **{name.replace("_", "."): value for name, value in values.items()}}
        return {name: value for name, value in new.items() if value is not None}

    return plan


async def told(cluster: SimulatedCluster) -> list[bytes]:
    """What brokers are told to read again."""
    names = await cluster.observer.children(znodes.CONFIG_CHANGES)
    nodes = await cluster.observer.get_many([f"{znodes.CONFIG_CHANGES}/{name}" for name in names])
    return [node.data for node in nodes.values()]


def test_settings_are_stored_and_brokers_are_told() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1,))
        configs = cluster.active.controller.configs
        assert await configs.change_topic("t", setting(retention_ms="5")) == {"retention.ms": "5"}
        assert await configs.change_broker(None, setting(a="1")) == {"a": "1"}
        assert await configs.change_broker(2, setting(a="2")) == {"a": "2"}
        assert await configs.change_group("g/h", setting(b="3")) == {"b": "3"}
        assert await configs.change_client_metrics("m", setting(c="4")) == {"c": "4"}
        assert await configs.change_topic("t", setting(x="6")) == {"retention.ms": "5", "x": "6"}
        stored = (await cluster.observer.get("/config/topics/t")).data
        assert znodes.decode_config("", stored) == {"retention.ms": "5", "x": "6"}
        names = await cluster.observer.children(znodes.CONFIG_CHANGES)
        assert cluster.shown == [f"{znodes.CONFIG_CHANGES}/{name}" for name in names]
        assert await told(cluster) == [
            b'{"version":2,"entity_path":"%s"}' % path
            for path in (
                b"topics/t",
                b"brokers/<default>",
                b"brokers/2",
                b"groups/g%2Fh",
                b"client-metrics/m",
                b"topics/t",
            )
        ]

    run(scenario)


def test_of_a_group_without_settings_nothing_is_kept() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        configs = cluster.active.controller.configs
        await configs.change_group("g", setting(b="3"))
        assert await configs.change_group("g", setting(b=None)) == {}
        assert await cluster.observer.children("/config/groups") == []
        assert await configs.change_group("other", setting(b=None)) == {}
        assert len(await told(cluster)) == 2

    run(scenario)


def test_validate_only_and_what_is_refused_change_nothing() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        configs = cluster.active.controller.configs
        before = await cluster.observer.tree("/")
        for change in (
            configs.change_broker(1, setting(a="1"), validate_only=True),
            configs.change_group("g", setting(a="1"), validate_only=True),
            configs.change_client_metrics("m", setting(a="1"), validate_only=True),
        ):
            assert await change == {"a": "1"}
        for topic, code in (
            ("", ErrorCode.INVALID_REQUEST),
            ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("n o", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ):
            with pytest.raises(KafkaError) as caught:
                await configs.change_topic(topic, setting(a="1"))
            assert caught.value.code is code
        assert await cluster.observer.tree("/") == before

    run(scenario)


async def lose_one_in_sync(cluster: SimulatedCluster) -> None:
    """Broker 2 leads `t`, alone in the ISR, and 3 is eligible."""
    await cluster.active.controller.configs.change_broker(None, setting(unused="1"))
    await cluster.create("t", (2, 3))
    await cluster.brokers[3].crash()
    await cluster.settle()
    assert (await cluster.state("t")).eligible_leader_replicas == (3,)


@pytest.mark.parametrize("is_topics_own", [False, True])
def test_nobody_is_eligible_under_another_min_insync_replicas(is_topics_own: bool) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await lose_one_in_sync(cluster)
        configs = cluster.active.controller.configs
        change = setting(min_insync_replicas="1")
        if is_topics_own:
            await configs.change_topic("t", change)
        else:
            await configs.change_broker(None, change)
        state = await cluster.state("t")
        assert (state.leader, state.isr, state.eligible_leader_replicas) == (2, (2,), ())
        await cluster.settle()
        path = znodes.partition_state_path("t", 0)
        version = (await cluster.observer.get(path)).version
        assert cluster.brokers[2].replicas[P0].partition_epoch == version

    run(scenario, settings={"min.insync.replicas": "2"})


def test_a_lower_default_counts_before_the_controllers_own_broker_goes_by_it() -> None:
    """Leaders may go by it already, and commit alone."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        configs = cluster.active.controller.configs
        await configs.change_broker(None, setting(min_insync_replicas="1"))
        await cluster.brokers[3].crash()
        await cluster.settle()
        assert (await cluster.state("t")).eligible_leader_replicas == ()

    run(scenario, settings={"min.insync.replicas": "2"})


def test_other_settings_leave_them_eligible() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await lose_one_in_sync(cluster)
        configs = cluster.active.controller.configs
        await configs.change_topic("t", setting(retention_ms="5"))
        await configs.change_broker(None, setting(b="5"))
        assert (await cluster.state("t")).eligible_leader_replicas == (3,)

    run(scenario, settings={"min.insync.replicas": "2"})


@pytest.mark.parametrize("is_topics_own", [False, True])
def test_partitions_that_waited_are_led_when_unclean_elections_are_allowed(
    is_topics_own: bool,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        for each in (3, 2):
            await cluster.brokers[each].crash()
            await cluster.settle()
        await cluster.brokers[3].restart()
        await cluster.settle()
        assert (await cluster.state("t")).leader == -1
        controller = cluster.active.controller
        if is_topics_own:
            change = setting(unclean_leader_election_enable="true")
            await controller.configs.change_topic("t", change)
        else:
            cluster.settings["unclean.leader.election.enable"] = "true"
            controller.unclean_elections_allowed()
            await cluster.settle()
        assert (await cluster.state("t")).leader == 3

    run(scenario)


def test_a_broker_that_cannot_read_them_back_says_so_and_the_controller_goes_on() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        configs = cluster.active.controller.configs
        cluster.hides_config = True
        with pytest.raises(KafkaError, match="stored, but this broker cannot read") as caught:
            await configs.change_broker(None, setting(a="1"))
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        cluster.hides_config = False
        assert await configs.change_broker(None, setting(b="2")) == {"a": "1", "b": "2"}
        assert cluster.active.controller.controller_epoch == 1

    run(scenario)
