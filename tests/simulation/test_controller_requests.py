"""What brokers and clients ask of the controller, in a cluster of three, over the wire."""

from __future__ import annotations

import asyncio

import pytest

from ottla.controller.leader_elections import ElectionType
from ottla.controller.producer_id_blocks import BLOCK_SIZE
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tests.support.elected_cluster import ElectedCluster, with_elected_cluster
from tests.support.simulated_cluster import PORT, host_of

T0 = TopicPartition("t", 0)


async def ask_for_isr(
    cluster: ElectedCluster, isr: list[int], *, broker_epoch: int
) -> AlterPartitionResponse:
    """As the leader of t-0 does, from a connection of the test."""
    state = cluster.partition("t")
    leader = cluster.broker(state.leader)
    data = PartitionData(
        partition_index=0,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.version,
        new_isr_with_epochs=[
            BrokerState(broker_id=each, broker_epoch=cluster.broker(each).broker_epoch)
            for each in isr
        ],
    )
    topic_id = leader.image.topics["t"].id
    request = AlterPartitionRequest(
        broker_id=state.leader,
        broker_epoch=broker_epoch,
        topics=[TopicData(topic_id=topic_id, partitions=[data])],
    )
    return await cluster.ask(cluster.controller_id, request, AlterPartitionResponse, 3, port=PORT)


def test_the_isr_shrinks_and_grows_by_alter_partition() -> None:
    async def test(cluster: ElectedCluster) -> None:
        await cluster.create_topic("t", [2, 1, 3])
        assert cluster.controller_id != 2, "the leader asks over the wire"
        cluster.network.cut(host_of(3), host_of(2))
        before = cluster.partition("t")
        assert (await cluster.produce("t", b"a", acks=1)).error_code == ErrorCode.NONE
        await cluster.until(lambda: {*cluster.partition("t").isr} == {2, 1})
        assert (await cluster.produce("t", b"b")).error_code == ErrorCode.NONE
        cluster.network.heal(host_of(3), host_of(2))
        await cluster.until(lambda: {*cluster.partition("t").isr} == {2, 1, 3})
        after = cluster.partition("t")
        assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch)
        assert after.version == before.version + 2

    with_elected_cluster(test)


def test_an_isr_asked_for_under_another_registration_is_refused() -> None:
    async def test(cluster: ElectedCluster) -> None:
        await cluster.create_topic("t", [2, 1, 3])
        epoch = cluster.broker(2).broker_epoch
        for wrong in (epoch - 1, epoch + 1, -1):
            refused = await ask_for_isr(cluster, [2], broker_epoch=wrong)
            assert refused.error_code == ErrorCode.STALE_BROKER_EPOCH
        assert {*cluster.partition("t").isr} == {2, 1, 3}
        answer = await ask_for_isr(cluster, [2, 1], broker_epoch=epoch)
        assert answer.topics[0].partitions[0].isr == [2, 1]

    with_elected_cluster(test)


def test_a_follower_that_is_gone_leaves_the_isr_and_comes_back() -> None:
    async def test(cluster: ElectedCluster) -> None:
        await cluster.create_topic("t", [2, 1, 3])
        cluster.alive.discard(3)
        cluster.machines[3].kill()
        await cluster.until(lambda: {*cluster.partition("t").isr} == {2, 1})
        assert (await cluster.produce("t", b"a")).error_code == ErrorCode.NONE
        await cluster.start(3)
        await cluster.until(lambda: {*cluster.partition("t").isr} == {2, 1, 3})

    with_elected_cluster(test)


@pytest.mark.parametrize("api", [AllocateProducerIdsRequest, AlterPartitionRequest])
def test_what_brokers_ask_is_taken_on_their_listener_only(api: type) -> None:
    async def test(cluster: ElectedCluster) -> None:
        with pytest.raises(ConnectionError):
            await cluster.ask(
                cluster.controller_id, api(broker_id=2), AllocateProducerIdsResponse, 0
            )

    with_elected_cluster(test)


def test_a_controlled_shutdown_moves_the_leaders_first() -> None:
    async def test(cluster: ElectedCluster) -> None:
        await cluster.create_topic("t", [2, 1, 3], [2, 3, 1], [3, 2, 1])
        epochs = [cluster.partition("t", number).leader_epoch for number in range(3)]
        await cluster.stop(2)
        states = [cluster.partition("t", number) for number in range(3)]
        assert [each.leader for each in states] == [1, 3, 3]
        assert all(2 not in each.isr for each in states)
        assert [each.leader_epoch for each in states] == [each + 1 for each in epochs]
        assert (await cluster.produce("t", b"a")).error_code == ErrorCode.NONE

    with_elected_cluster(test)


def test_the_controller_itself_stops_and_another_goes_on() -> None:
    async def test(cluster: ElectedCluster) -> None:
        first = cluster.controller_id
        others = sorted(cluster.alive - {first})
        await cluster.create_topic("t", [first, *others])
        await cluster.stop(first)
        await cluster.until(
            lambda: any(cluster.broker(each).controller.is_active for each in cluster.alive)
        )
        await cluster.until(lambda: cluster.partition("t").leader in others)
        assert (await cluster.produce("t", b"a")).error_code == ErrorCode.NONE

    with_elected_cluster(test)


def election(*partitions: int) -> ElectLeadersRequest:
    return ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic="t", partitions=list(partitions))]
    )


@pytest.mark.parametrize("is_asked_at_controller", [True, False])
def test_the_preferred_replica_leads_again_when_asked_for(is_asked_at_controller: bool) -> None:
    async def test(cluster: ElectedCluster) -> None:
        await cluster.create_topic("t", [2, 1, 3], [3, 2, 1])
        await cluster.stop(2)
        await cluster.start(2)
        await cluster.until(lambda: 2 in cluster.partition("t").isr)
        assert cluster.partition("t").leader != 2
        others = sorted(cluster.alive - {cluster.controller_id})
        asked = cluster.controller_id if is_asked_at_controller else others[0]
        response = await cluster.ask(asked, election(0, 1, 9), ElectLeadersResponse)
        assert response.error_code == ErrorCode.NONE
        (topic,) = response.replica_election_results
        codes = {each.partition_id: each.error_code for each in topic.partition_result}
        assert codes == {
            0: ErrorCode.NONE,
            1: ErrorCode.ELECTION_NOT_NEEDED,
            9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        await cluster.until(
            lambda: {cluster.partition("t", at=each).leader for each in (asked, 2)} == {2}
        )
        assert (await cluster.produce("t", b"a")).error_code == ErrorCode.NONE

    with_elected_cluster(test, auto_leader_rebalance_enable="false")


def test_an_unclean_election_takes_one_that_is_behind_and_the_others_follow_it() -> None:
    async def test(cluster: ElectedCluster) -> None:
        await cluster.create_topic("t", [2, 3], min_insync_replicas="1")
        assert (await cluster.produce("t", b"kept")).error_code == ErrorCode.NONE
        cluster.network.cut(host_of(3), host_of(2))
        cluster.network.cut(host_of(2), host_of(3))
        assert (await cluster.produce("t", b"lost", acks=1)).error_code == ErrorCode.NONE
        await cluster.until(lambda: cluster.partition("t").isr == (2,))
        cluster.alive.discard(2)
        cluster.machines[2].kill()
        cluster.network.heal(host_of(3), host_of(2))
        cluster.network.heal(host_of(2), host_of(3))
        await cluster.until(lambda: cluster.partition("t").leader == -1)
        request = election(0)
        request.election_type = ElectionType.UNCLEAN

        response = await cluster.ask(3, request, ElectLeadersResponse)

        assert response.error_code == ErrorCode.NONE
        (result,) = response.replica_election_results[0].partition_result
        assert result.error_code == ErrorCode.NONE
        await cluster.until(lambda: cluster.partition("t").leader == 3)
        assert (await cluster.produce("t", b"instead")).base_offset == 1
        await cluster.start(2)
        await cluster.until(lambda: {*cluster.partition("t").isr} == {3, 2})
        assert cluster.content(3, T0) == cluster.content(2, T0)
        assert b"instead" in cluster.content(2, T0)

    with_elected_cluster(test)


def test_a_follower_that_registers_anew_counts_under_its_new_epoch() -> None:
    """Its session has expired, and it serves on."""

    async def test(cluster: ElectedCluster) -> None:
        await cluster.create_topic("t", [2, 1, 3])
        before = cluster.broker(3).broker_epoch
        cluster.machines[3].expire_session()
        await cluster.until(lambda: cluster.broker(3).broker_epoch != before)
        await cluster.until(
            lambda: cluster.image(2).brokers[3].epoch == cluster.broker(3).broker_epoch
        )
        await cluster.until(lambda: {*cluster.partition("t").isr} == {2, 1, 3})
        assert (await cluster.produce("t", b"a")).error_code == ErrorCode.NONE
        state = cluster.partition("t")
        stale = FetchRequest(
            replica_state=ReplicaState(replica_id=3, replica_epoch=before),
            topics=[
                FetchTopic(
                    topic_id=cluster.image(2).topics["t"].id,
                    partitions=[
                        FetchPartition(current_leader_epoch=state.leader_epoch, fetch_offset=1)
                    ],
                )
            ],
        )
        response = await cluster.ask(2, stale, FetchResponse, 17, port=PORT)
        (partition,) = response.responses[0].partitions
        assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_elected_cluster(test)


async def reassign(
    cluster: ElectedCluster, replicas: list[int] | None, *, at: int
) -> AlterPartitionReassignmentsResponse:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[partition])]
    )
    return await cluster.ask(at, request, AlterPartitionReassignmentsResponse)


async def moving(cluster: ElectedCluster) -> list[tuple[list[int], list[int], list[int]]]:
    response = await cluster.ask(
        cluster.controller_id,
        ListPartitionReassignmentsRequest(topics=None),
        ListPartitionReassignmentsResponse,
    )
    assert response.error_code == ErrorCode.NONE
    return [
        (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in response.topics
        for each in topic.partitions
    ]


def test_a_partition_moves_to_other_brokers_with_all_its_records() -> None:
    async def test(cluster: ElectedCluster) -> None:
        await cluster.create_topic("t", [1, 2])
        for number in range(20):
            answer = await cluster.produce("t", b"v%d" % number)
            assert answer.error_code == ErrorCode.NONE
        others = sorted(cluster.alive - {cluster.controller_id})
        refused = await reassign(cluster, [2, 3], at=others[0])
        assert refused.error_code == ErrorCode.NOT_CONTROLLER
        assert await moving(cluster) == []

        response = await reassign(cluster, [2, 3], at=cluster.controller_id)

        assert response.error_code == ErrorCode.NONE
        assert response.responses[0].partitions[0].error_code == ErrorCode.NONE
        await cluster.until(lambda: cluster.partition("t").replicas == (2, 3))
        assert await moving(cluster) == []
        state = cluster.partition("t")
        assert (state.leader, {*state.isr}) == (2, {2, 3})
        assert (await cluster.produce("t", b"last")).base_offset == 20
        log = cluster.broker(3).logs.get(T0)
        assert log is not None
        await cluster.until(lambda: log.log_end_offset == 21)
        await cluster.until(lambda: cluster.broker(1).logs.get(T0) is None)

    with_elected_cluster(test)


def test_a_move_to_a_broker_that_cannot_be_reached_is_cancelled() -> None:
    async def test(cluster: ElectedCluster) -> None:
        await cluster.create_topic("t", [1, 2])
        assert (await cluster.produce("t", b"a")).error_code == ErrorCode.NONE
        controller = cluster.controller_id
        leader = cluster.partition("t").leader
        cluster.network.cut(host_of(3), host_of(leader))
        response = await reassign(cluster, [2, 3], at=controller)
        assert response.responses[0].partitions[0].error_code == ErrorCode.NONE
        assert await moving(cluster) == [([2, 3, 1], [3], [1])]

        response = await reassign(cluster, None, at=controller)

        assert response.responses[0].partitions[0].error_code == ErrorCode.NONE
        assert await moving(cluster) == []
        await cluster.until(lambda: {*cluster.partition("t").replicas} == {1, 2})
        assert (await cluster.produce("t", b"b")).error_code == ErrorCode.NONE
        cluster.network.heal(host_of(3), host_of(leader))
        await cluster.until(lambda: cluster.broker(3).logs.get(T0) is None)

    with_elected_cluster(test)


def test_producer_ids_come_from_the_controller_whoever_is_asked() -> None:
    async def test(cluster: ElectedCluster) -> None:
        found: list[int] = []
        for broker_id in cluster.machines:
            response = await cluster.ask(
                broker_id,
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
                InitProducerIdResponse,
            )
            assert response.error_code == ErrorCode.NONE
            found.append(response.producer_id)
        assert sorted(found) == [0, BLOCK_SIZE, 2 * BLOCK_SIZE]
        request = AllocateProducerIdsRequest(
            broker_id=2, broker_epoch=cluster.broker(2).broker_epoch
        )
        elsewhere = next(each for each in cluster.machines if each != cluster.controller_id)
        refused = await cluster.ask(elsewhere, request, AllocateProducerIdsResponse, 0, port=PORT)
        assert refused.error_code == ErrorCode.NOT_CONTROLLER
        given = await cluster.ask(
            cluster.controller_id, request, AllocateProducerIdsResponse, 0, port=PORT
        )
        assert (given.error_code, given.producer_id_start) == (ErrorCode.NONE, 3 * BLOCK_SIZE)

    with_elected_cluster(test)


def test_when_all_have_lost_power_the_one_that_has_the_most_leads() -> None:
    """Each is asked where its log ends, the controller's own broker among them."""

    async def test(cluster: ElectedCluster) -> None:
        await cluster.create_topic("t", [1, 2, 3], unclean_leader_election_enable="false")
        for number in range(5):
            assert (await cluster.produce("t", b"v%d" % number)).error_code == ErrorCode.NONE
        synced = cluster.broker(3).logs.get(T0)
        assert synced is not None
        await cluster.until(lambda: synced.log_end_offset == 5)
        await synced.flush()
        for broker_id in (1, 2, 3):
            cluster.alive.discard(broker_id)
            cluster.machines[broker_id].lose_power()
        await cluster.start(1, 2)
        await asyncio.sleep(10)
        assert cluster.partition("t").leader == -1, "3 may have more"
        await cluster.start(3)
        await cluster.until(lambda: cluster.partition("t").leader == 3)
        await cluster.until(lambda: {*cluster.partition("t").isr} == {1, 2, 3})
        assert (await cluster.produce("t", b"next")).base_offset == 5

    with_elected_cluster(test)
