from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.metadata.image import BrokersChanged
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.support.cluster_image import join_cluster
from tests.support.other_broker import image_of
from tests.support.simulated_broker import SimulatedBroker, with_broker

NOT_ASKED = -0x8000_0000


def named(*names: str, may_create: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=may_create,
    )


def by_id(topic_id: TopicId) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)])


@pytest.mark.parametrize("version", [0, 1, 9, 13])
def test_a_client_learns_who_leads(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t", 2)
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        response = await broker.call(request, MetadataResponse, version)
        (node,) = response.brokers
        assert (node.node_id, node.host, node.port) == (7, "localhost", 9092)
        assert node.rack == ("here" if version >= 1 else None)
        assert response.controller_id == (7 if version >= 1 else -1)
        assert bool(response.cluster_id) == (version >= 2)
        (topic,) = response.topics
        assert (topic.error_code, topic.name, topic.is_internal) == (ErrorCode.NONE, "t", False)
        assert topic.topic_id == (topic_id if version >= 10 else NO_TOPIC_ID)
        for index, partition in enumerate(topic.partitions):
            assert partition.error_code == ErrorCode.NONE
            assert (partition.partition_index, partition.leader_id) == (index, 7)
            assert (partition.replica_nodes, partition.isr_nodes) == ([7], [7])
            assert partition.leader_epoch == (0 if version >= 7 else -1)
            assert partition.offline_replicas == []

    with_broker(test, broker_id="7", broker_rack="here")


def test_all_topics_are_null_and_none_is_empty_but_in_the_oldest_version() -> None:
    async def test(broker: SimulatedBroker) -> None:
        for name in ("a", "b"):
            await broker.create_topic(name)

        async def names(request: MetadataRequest, version: int) -> set[str | None]:
            response = await broker.call(request, MetadataResponse, version)
            return {topic.name for topic in response.topics}

        assert await names(MetadataRequest(topics=[]), 0) == {"a", "b"}
        for version in (1, 8, 13):
            assert await names(MetadataRequest(topics=[]), version) == set()
            assert await names(MetadataRequest(topics=None), version) == {"a", "b"}

    with_broker(test)


def test_asking_makes_a_topic_where_client_and_broker_allow_it() -> None:
    async def test(broker: SimulatedBroker) -> None:
        response = await broker.call(named("new"), MetadataResponse)
        assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # Versions before 4 cannot forbid it.
        for name, version in (("new", 13), ("older", 4), ("oldest", 3)):
            response = await broker.call(named(name, may_create=True), MetadataResponse, version)
            (topic,) = response.topics
            assert (topic.error_code, len(topic.partitions)) == (ErrorCode.NONE, 3)
            assert (await broker.produce(name, b"v")).base_offset == 0

    with_broker(test, num_partitions="3")


def test_clients_that_ask_for_a_new_topic_together_all_get_it() -> None:
    async def test(broker: SimulatedBroker) -> None:
        connections = [await broker.connect() for _ in range(5)]
        responses = await asyncio.gather(
            *(
                connection.call(named("new", may_create=True), MetadataResponse, 13)
                for connection in connections
            )
        )
        topics = [response.topics[0] for response in responses]
        assert {topic.error_code for topic in topics} == {ErrorCode.NONE}
        assert len({topic.topic_id for topic in topics}) == 1

    with_broker(test)


def test_no_topic_is_made_where_the_broker_forbids_it() -> None:
    async def test(broker: SimulatedBroker) -> None:
        for _ in range(2):
            response = await broker.call(named("new", may_create=True), MetadataResponse)
            assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_broker(test, auto_create_topics_enable="false")


@pytest.mark.parametrize("may_create", [True, False])
def test_one_bad_name_does_not_spoil_the_others(may_create: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        response = await broker.call(named("a b", "t", may_create=may_create), MetadataResponse)
        codes = [(topic.name, topic.error_code) for topic in response.topics]
        assert codes == [("a b", ErrorCode.INVALID_TOPIC_EXCEPTION), ("t", ErrorCode.NONE)]

    with_broker(test)


def test_topics_are_found_by_id() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        (topic,) = (await broker.call(by_id(topic_id), MetadataResponse, 12)).topics
        assert (topic.error_code, topic.name, topic.topic_id) == (ErrorCode.NONE, "t", topic_id)
        unknown_id = TopicId(b"x" * 16)
        (topic,) = (await broker.call(by_id(unknown_id), MetadataResponse)).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert (topic.name, topic.topic_id) == (None, unknown_id)

    with_broker(test)


@pytest.mark.parametrize("version", [10, 11])
def test_an_id_in_a_version_that_cannot_ask_by_id_is_refused(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        for asked in (by_id(topic_id), by_id(NO_TOPIC_ID)):
            (topic,) = (await broker.call(asked, MetadataResponse, version)).topics
            assert (topic.error_code, topic.name) == (ErrorCode.INVALID_REQUEST, "")

    with_broker(test)


def test_without_authorizer_everything_is_allowed_to_who_asks() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        request = named("t", "missing")
        response = await broker.call(request, MetadataResponse, 10)
        assert response.topics[0].topic_authorized_operations == NOT_ASKED
        assert response.cluster_authorized_operations == NOT_ASKED
        request.include_topic_authorized_operations = True
        request.include_cluster_authorized_operations = True
        response = await broker.call(request, MetadataResponse, 10)
        known, missing = response.topics
        assert known.topic_authorized_operations == 0b1101_1111_1000
        assert missing.topic_authorized_operations == 0b1101_1111_1000
        assert response.cluster_authorized_operations == 0b1_1111_1010_0000

    with_broker(test)


def test_internal_topics_are_told_apart() -> None:
    async def test(broker: SimulatedBroker) -> None:
        response = await broker.call(named("__consumer_offsets", "__mine"), MetadataResponse)
        assert [topic.is_internal for topic in response.topics] == [True, False]

    with_broker(test)


def test_each_listener_tells_of_itself() -> None:
    async def test(broker: SimulatedBroker) -> None:
        for port, shown in ((9092, 9092), (9093, 19093)):
            connection = await broker.connect(port)
            response = await connection.call(MetadataRequest(topics=[]), MetadataResponse, 13)
            assert [node.port for node in response.brokers] == [shown]

    with_broker(
        test,
        listeners="IN://localhost:9092,OUT://localhost:9093",
        advertised_listeners="IN://localhost:9092,OUT://far.example:19093",
        listener_security_protocol_map="IN:PLAINTEXT,OUT:PLAINTEXT",
        inter_broker_listener_name="IN",
    )


@pytest.mark.parametrize("version", [0, 5, 6, 13])
def test_brokers_and_leaders_of_a_cluster(version: int) -> None:
    """Broker 2 has no listener that this client can use, broker 3 does not run."""

    async def test(broker: SimulatedBroker) -> None:
        join_cluster(broker, {0: 1, 1: 2, 2: 3, 3: -1})
        response = await broker.call(named("t", may_create=True), MetadataResponse, version)
        assert [each.node_id for each in response.brokers] == [1, 4]
        assert response.controller_id == (2 if version >= 1 else -1)
        (topic,) = response.topics
        leaders = [(each.error_code, each.leader_id) for each in topic.partitions]
        assert leaders == [
            (ErrorCode.REPLICA_NOT_AVAILABLE if version == 0 else ErrorCode.NONE, 1),
            (
                ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE,
                -1,
            ),
            (ErrorCode.LEADER_NOT_AVAILABLE, -1),
            (ErrorCode.LEADER_NOT_AVAILABLE, -1),
        ]
        for partition in topic.partitions:
            assert partition.replica_nodes == ([1, 4] if version == 0 else [3, 2, 1, 4])
            assert partition.isr_nodes == ([1] if version == 0 else [2, 1])
            assert partition.offline_replicas == ([3, 2, 4] if version >= 5 else [])

    with_broker(test)


def test_a_partition_on_a_failed_disk_has_no_leader() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        broker.machine.broker.logs.folders[0].fail(OSError("gone"), "testing")
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        (topic,) = (await broker.call(request, MetadataResponse)).topics
        (partition,) = topic.partitions
        assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (partition.leader_id, partition.offline_replicas) == (-1, [1])

    with_broker(test)


def test_the_topic_of_the_group_coordinator_is_made_as_it_must_be() -> None:
    async def test(broker: SimulatedBroker) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="__consumer_offsets")])
        (topic,) = (await broker.call(request, MetadataResponse)).topics
        assert topic.is_internal
        assert len(topic.partitions) == 50

    with_broker(test)


def test_a_topic_that_is_asked_for_many_times_is_described_once() -> None:
    """As in Kafka. Else one short name, half a million times, is answered with gigabytes."""

    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        names = [*["t"] * 1000, "missing", "t", "missing"]
        found = await broker.call(named(*names), MetadataResponse)
        assert [topic.name for topic in found.topics] == ["t", "missing"]
        same = by_id(topic_id)
        assert same.topics is not None
        same.topics *= 1000
        found = await broker.call(same, MetadataResponse)
        assert [topic.topic_id for topic in found.topics] == [topic_id]

    with_broker(test)


def test_a_request_makes_no_topics_where_they_were_more_than_it_may_create() -> None:
    """As in Kafka. Else a megabyte of names makes more logs than there can be open files."""

    async def test(broker: SimulatedBroker) -> None:
        request = named("a", "b", "c", may_create=True)
        for _ in range(2):
            found = await broker.call(request, MetadataResponse)
            codes = {topic.name: topic.error_code for topic in found.topics}
            assert codes == dict.fromkeys("abc", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    with_broker(test, num_partitions="5000")


def test_names_beside_ids_are_not_looked_at() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        await broker.create_topic("u")
        asked = [
            MetadataRequestTopic(name="u"),
            MetadataRequestTopic(topic_id=topic_id, name=None),
        ]
        response = await broker.call(MetadataRequest(topics=asked), MetadataResponse)
        assert [topic.name for topic in response.topics] == ["t"]

    with_broker(test)


def test_a_broker_that_knows_of_no_broker_waits_until_it_is_told() -> None:
    """Of a cluster of which all start at once, the first is asked before anybody is registered."""

    async def test(broker: SimulatedBroker) -> None:
        image = image_of(broker)
        brokers = dict(image.brokers)
        state_changes = broker.machine.broker._state_changes
        state_changes._is_told.clear()
        image.apply(BrokersChanged({}))
        asked = asyncio.ensure_future(broker.call(named(), MetadataResponse, 9))
        await asyncio.sleep(1)
        assert not asked.done()
        image.apply(BrokersChanged(brokers))
        state_changes._is_told.set()
        assert [each.node_id for each in (await asked).brokers] == list(brokers)

    with_broker(test)
