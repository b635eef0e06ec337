from __future__ import annotations

from ottla.controller.controller_context import ControllerContext
from ottla.controller.request_batch import (
    ALL,
    SOME,
    Request,
    RequestBatch,
    Sender,
    partitions_to_delete,
)
from ottla.kernel.clock import SystemClock
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.kernel.slices import Slices
from ottla.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.wire.messages.stop_replica import StopReplicaRequest
from ottla.wire.messages.update_metadata import UpdateMetadataRequest
from tests.unit.controller.contexts import EPOCH, P0, TOPIC_ID, make_context, run

SENDER = Sender(BrokerId(1), EPOCH, "PLAINTEXT")


def build(batch: RequestBatch, context: ControllerContext) -> dict[BrokerId, list[Request]]:
    return run(batch.build(context, SENDER, Slices(SystemClock())))


def test_a_replica_is_told_of_its_state_and_every_broker_of_the_metadata() -> None:
    context = make_context(live=(1, 2, 3), replicas=(1, 2))
    batch = RequestBatch()
    batch.lead_or_follow([BrokerId(2)], P0, is_new=True)
    requests = build(batch, context)
    assert {broker: [type(each) for each in sent] for broker, sent in requests.items()} == {
        1: [UpdateMetadataRequest],
        2: [LeaderAndIsrRequest, UpdateMetadataRequest],
        3: [UpdateMetadataRequest],
    }
    told, update = requests[BrokerId(2)]
    assert isinstance(told, LeaderAndIsrRequest)
    assert (told.controller_id, told.controller_epoch, told.broker_epoch) == (1, EPOCH, 102)
    assert told.type == SOME
    assert [(each.broker_id, each.host_name) for each in told.live_leaders] == [(1, "host-1")]
    (topic,) = told.topic_states
    assert (topic.topic_name, topic.topic_id) == ("t", TOPIC_ID)
    (state,) = topic.partition_states
    assert (state.partition_index, state.leader, state.leader_epoch) == (0, 1, 5)
    assert (state.isr, state.replicas, state.partition_epoch) == ([1, 2], [1, 2], 9)
    assert state.is_new
    assert isinstance(update, UpdateMetadataRequest)
    assert [(each.id, each.epoch) for each in update.live_brokers] == [(1, 101), (2, 102), (3, 103)]
    assert update.live_brokers[0].endpoints[0].host == "host-1"
    assert update.broker_epoch == 102


def test_who_is_not_alive_is_told_nothing_and_is_offline_in_the_metadata() -> None:
    context = make_context(live=(1, 3))
    batch = RequestBatch()
    batch.lead_or_follow([BrokerId(1), BrokerId(2)], P0)
    requests = build(batch, context)
    assert set(requests) == {1, 3}
    (update,) = requests[BrokerId(3)]
    assert isinstance(update, UpdateMetadataRequest)
    assert update.topic_states[0].partition_states[0].offline_replicas == [2]


def test_what_is_said_is_what_holds_when_it_leaves() -> None:
    context = make_context()
    batch = RequestBatch()
    batch.lead_or_follow([BrokerId(1)], P0)
    committed = context.committed[P0]
    context.committed[P0] = committed._replace(partition_epoch=10)
    (told, _) = build(batch, context)[BrokerId(1)]
    assert isinstance(told, LeaderAndIsrRequest)
    assert told.topic_states[0].partition_states[0].partition_epoch == 10


def test_a_replica_is_stopped_in_its_leader_epoch_and_one_that_goes_for_good_in_any() -> None:
    context = make_context(partition_count=2)
    batch = RequestBatch()
    batch.stop([BrokerId(2)], P0, delete=False)
    batch.stop([BrokerId(2)], TopicPartition("t", 1), delete=True)
    (request,) = build(batch, context)[BrokerId(2)]
    assert isinstance(request, StopReplicaRequest)
    assert partitions_to_delete(request) == [TopicPartition("t", 1)]
    assert [each.leader_epoch for each in request.topic_states[0].partition_states] == [5, 5]
    context.topics_to_delete.add("t")
    (request,) = build(batch, context)[BrokerId(2)]
    assert isinstance(request, StopReplicaRequest)
    assert [each.leader_epoch for each in request.topic_states[0].partition_states] == [-2, -2]


def test_a_topic_that_is_being_deleted_goes_from_the_metadata_and_nobody_leads_it() -> None:
    context = make_context()
    context.topics_to_delete.add("t")
    batch = RequestBatch()
    batch.lead_or_follow([BrokerId(1)], P0)
    told, update = build(batch, context)[BrokerId(1)]
    assert isinstance(told, LeaderAndIsrRequest)
    assert told.topic_states == []
    assert isinstance(update, UpdateMetadataRequest)
    assert update.topic_states[0].partition_states[0].leader == -2


def test_who_has_just_started_hears_of_everything_and_the_others_only_of_what_changed() -> None:
    context = make_context(replicas=(1, 2), partition_count=3)
    batch = RequestBatch()
    batch.tell_all([BrokerId(1), BrokerId(3)])
    batch.update_metadata()
    requests = build(batch, context)
    told, update = requests[BrokerId(1)]
    assert isinstance(told, LeaderAndIsrRequest)
    assert isinstance(update, UpdateMetadataRequest)
    assert (told.type, len(told.topic_states[0].partition_states)) == (ALL, 3)
    assert (update.type, len(update.topic_states[0].partition_states)) == (ALL, 3)
    (none, update) = requests[BrokerId(3)]
    assert isinstance(none, LeaderAndIsrRequest)
    assert (none.type, none.topic_states) == (ALL, [])
    (update,) = requests[BrokerId(2)]
    assert isinstance(update, UpdateMetadataRequest)
    assert (update.type, update.topic_states) == (SOME, [])
    assert [each.id for each in update.live_brokers] == [1, 2, 3]


def test_nothing_to_say_is_not_said() -> None:
    assert build(RequestBatch(), make_context()) == {1: [], 2: [], 3: []}
