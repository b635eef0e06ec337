from __future__ import annotations

import asyncio

import pytest

from ottla.coordination.znodes import Endpoint
from ottla.kernel.clock import SystemClock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, BrokerId, TopicId
from ottla.kernel.slices import Slices
from ottla.kernel.transport import Part
from ottla.metadata.image import (
    BrokerImage,
    BrokersChanged,
    Change,
    ClusterImage,
    ControllerChanged,
    PartitionImage,
    TopicChanged,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicImage,
)
from ottla.metadata.update_metadata import LEADER_DURING_DELETE, TYPE_FULL, update_image
from ottla.wire.codec import codec
from ottla.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

ID_A, ID_B = TopicId(b"a" * 16), TopicId(b"b" * 16)
TYPE_INCREMENTAL = 1
VERSION = 8


def update(image: ClusterImage, request: UpdateMetadataRequest) -> list[Change]:
    changes: list[Change] = []
    image.on_change(changes.append)
    asyncio.run(update_image(image, sent(request), Slices(SystemClock())))
    return changes


def sent(request: UpdateMetadataRequest) -> UpdateMetadataRequest:
    """As it comes over the wire."""
    out: list[Part] = []
    codec(UpdateMetadataRequest, VERSION).encode(request, out)
    received, _ = codec(UpdateMetadataRequest, VERSION).decode(
        b"".join(part for part in out if isinstance(part, bytes)), 0
    )
    return received


def told(
    *topics: UpdateMetadataTopicState, type: int = TYPE_INCREMENTAL, controller_id: int = -1
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=controller_id, controller_epoch=1, type=type, topic_states=list(topics)
    )


def topic(
    name: str, topic_id: TopicId, leaders: dict[int, int], *, zk_version: int = 3
) -> UpdateMetadataTopicState:
    return UpdateMetadataTopicState(
        topic_name=name,
        topic_id=topic_id,
        partition_states=[
            UpdateMetadataPartitionState(
                partition_index=number,
                controller_epoch=1,
                leader=leader,
                leader_epoch=7,
                isr=[1],
                zk_version=zk_version,
                replicas=[1, 2],
                offline_replicas=[2],
                eligible_leader_replicas=[3],
                last_known_elr=[2],
            )
            for number, leader in leaders.items()
        ],
    )


def partition(number: int, leader: int) -> PartitionImage:
    return PartitionImage(
        number,
        (1, 2),
        leader,
        7,
        (1,),
        1,
        3,
        offline_replicas=(2,),
        eligible_leader_replicas=(3,),
        last_known_elr=(2,),
    )


def endpoint(listener: str, port: int) -> UpdateMetadataEndpoint:
    return UpdateMetadataEndpoint(port=port, host="h", listener=listener, security_protocol=0)


def test_all_live_brokers_are_told_each_time() -> None:
    image = ClusterImage()
    request = told(controller_id=2)
    request.live_brokers = [
        UpdateMetadataBroker(
            id=2, endpoints=[endpoint("A", 1), endpoint("B", 2)], rack=None, epoch=9
        ),
        UpdateMetadataBroker(id=1, endpoints=[endpoint("A", 3)], rack="r"),
    ]
    brokers = {
        BrokerId(1): BrokerImage(
            BrokerId(1), -1, {"A": Endpoint("A", "PLAINTEXT", "h", 3)}, rack="r"
        ),
        BrokerId(2): BrokerImage(
            BrokerId(2),
            9,
            {"A": Endpoint("A", "PLAINTEXT", "h", 1), "B": Endpoint("B", "PLAINTEXT", "h", 2)},
        ),
    }
    assert update(image, request) == [BrokersChanged(brokers), ControllerChanged(2)]
    assert list(image.brokers) == [1, 2]
    assert update(image, request) == []
    request.live_brokers.pop()
    assert update(image, request) == [BrokersChanged({BrokerId(2): brokers[BrokerId(2)]})]


def test_topics_that_are_not_named_stay() -> None:
    image = ClusterImage()
    update(image, told(topic("a", ID_A, {0: 1, 1: 2}), topic("b", ID_B, {0: 1})))
    a = TopicImage("a", ID_A, (partition(0, 1), partition(1, 2)))
    assert image.topics["a"] == image.topics_by_id[ID_A] == a

    changes = update(image, told(topic("a", ID_A, {1: -1})))

    changed = TopicImage("a", ID_A, (partition(0, 1), partition(1, -1)))
    assert changes == [TopicChanged(changed, (1,), 2)]
    assert image.topics.keys() == {"a", "b"}


def test_what_was_told_before_changes_nothing() -> None:
    image = ClusterImage()
    update(image, told(topic("a", ID_A, {0: 1})))
    assert update(image, told(topic("a", ID_A, {0: 1}))) == []


def test_partitions_are_added() -> None:
    image = ClusterImage()
    update(image, told(topic("a", ID_A, {0: 1})))
    grown = TopicImage("a", ID_A, (partition(0, 1), partition(1, 2)))
    assert update(image, told(topic("a", ID_A, {1: 2}))) == [TopicChanged(grown, (1,), 1)]


def test_a_partition_that_nobody_told_of_has_no_leader() -> None:
    image = ClusterImage()
    update(image, told(topic("a", ID_A, {2: 1, 0: 2})))
    unknown = PartitionImage(1, ())
    assert image.topics["a"].partitions == (partition(0, 2), unknown, partition(2, 1))


def test_a_topic_that_is_being_deleted_goes() -> None:
    image = ClusterImage()
    update(image, told(topic("a", ID_A, {0: 1, 1: 1})))
    known = image.topics["a"]
    going = told(topic("a", ID_A, dict.fromkeys((0, 1), LEADER_DURING_DELETE)))
    assert update(image, going) == [TopicDeleted(known)]
    assert image.topics == {}
    assert image.topics_by_id == {}
    assert update(image, going) == []


def test_a_name_with_another_id_is_another_topic() -> None:
    image = ClusterImage()
    update(image, told(topic("a", ID_A, {0: 1, 1: 1})))
    known = image.topics["a"]
    image.apply(TopicConfigChanged("a", {"k": "v"}))

    changes = update(image, told(topic("a", ID_B, {0: 2})))

    made_anew = TopicImage("a", ID_B, (partition(0, 2),))
    assert changes == [TopicDeleted(known), TopicCreated(made_anew, {"k": "v"})]
    assert image.topics_by_id == {ID_B: made_anew}
    assert image.topic_configs == {"a": {"k": "v"}}


@pytest.mark.parametrize(("first", "then"), [(NO_TOPIC_ID, ID_A), (ID_A, NO_TOPIC_ID)])
def test_a_topic_without_id_is_the_one_of_its_name(first: TopicId, then: TopicId) -> None:
    """A controller of old tells no ids, and a topic of old gets one later."""
    image = ClusterImage()
    update(image, told(topic("a", first, {0: 1, 1: 1})))
    update(image, told(topic("a", then, {0: 2})))
    assert image.topics["a"] == TopicImage("a", ID_A, (partition(0, 2), partition(1, 1)))


def test_everything_is_told_at_once() -> None:
    image = ClusterImage()
    update(image, told(topic("a", ID_A, {0: 1, 1: 1}), topic("gone", ID_B, {0: 1})))
    gone = image.topics["gone"]
    update_of_all = told(topic("a", ID_A, {0: 1, 1: 1}), type=TYPE_FULL)
    assert update(image, update_of_all) == [TopicDeleted(gone)]
    assert update(image, told(type=TYPE_INCREMENTAL)) == []
    assert image.topics.keys() == {"a"}


@pytest.mark.parametrize("number", [-1, 2**31 - 1])
def test_a_partition_that_cannot_be_is_refused(number: int) -> None:
    image = ClusterImage()
    with pytest.raises(KafkaError) as raised:
        update(image, told(topic("a", ID_A, {number: 1})))
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    assert image.topics == {}


def test_an_unknown_security_protocol_is_refused() -> None:
    request = told()
    strange = UpdateMetadataEndpoint(port=1, host="h", listener="A", security_protocol=4)
    request.live_brokers = [UpdateMetadataBroker(id=1, endpoints=[strange])]
    with pytest.raises(KafkaError, match="security protocol 4"):
        update(ClusterImage(), request)


@pytest.mark.parametrize("type", [TYPE_INCREMENTAL, TYPE_FULL])
def test_a_state_that_was_overtaken_changes_nothing(type: int) -> None:
    """The controller gave up a connection, and told the next state over another one; then the
    network healed, and what was on its way in the first one arrived after all."""
    image = ClusterImage()
    update(image, told(topic("a", ID_A, {0: 1, 1: 1}, zk_version=4)))
    update(image, told(topic("a", ID_A, {0: 2, 1: 2}, zk_version=3), type=type))
    assert [each.leader for each in image.topics["a"].partitions] == [1, 1]
    update(image, told(topic("a", ID_A, {0: 2}, zk_version=4)))
    assert [each.leader for each in image.topics["a"].partitions] == [2, 1], "as new as that"
    update(image, told(topic("a", ID_B, {0: 1}, zk_version=0)))
    assert [each.leader for each in image.topics["a"].partitions] == [1], "another topic"
