"""Where the logs of brokers end: a controller that must elect the one of several replicas which has
the most asks each of them, by GetReplicaLogInfo (KIP-966), and its own broker by a plain call.

An answer is of the log, whoever leads the partition: mostly nobody does. What a broker cannot say
for sure it refuses to say, and is asked again: who is thought to have nothing is not elected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.controller.unclean_recovery import LogEnd
from ottla.kernel.clock import Clock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicId, TopicPartition
from ottla.kernel.slices import Slices
from ottla.membership.peers import Peers
from ottla.metadata.image import ClusterImage
from ottla.replication.replica_manager import ReplicaManager
from ottla.storage.log_manager import LogManager

if TYPE_CHECKING:
    from ottla.wire.messages.get_replica_log_info import (
        GetReplicaLogInfoRequest,
        GetReplicaLogInfoResponse,
        PartitionLogInfo,
    )

PURPOSE = "log-ends"

PARTITIONS_MAX = 1000
"""In one answer."""

_VERSION = 0


class LogEnds:
    """Owned by the broker, also by one that is not the controller: others ask it."""

    def __init__(
        self,
        own_id: BrokerId,
        image: ClusterImage,
        peers: Peers,
        replicas: ReplicaManager,
        logs: LogManager,
        clock: Clock,
    ) -> None:
        self._own_id = own_id
        self._image = image
        self._peers = peers
        self._replicas = replicas
        self._logs = logs
        self._clock = clock

    # The controller asks

    async def ask(
        self, broker_id: BrokerId, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, LogEnd]:
        """Of a broker that is alive; those that it has no log of are left out. Raises KafkaError
        while it cannot tell."""
        found: dict[TopicPartition, LogEnd | None] = {}
        for first in range(0, len(partitions), PARTITIONS_MAX):
            found.update(await self._ask(broker_id, partitions[first : first + PARTITIONS_MAX]))
        ends: dict[TopicPartition, LogEnd] = {}
        for each in partitions:
            if each not in found:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR, f"Broker {broker_id} says nothing of {each}."
                )
            end = found[each]
            if end is not None:
                ends[each] = end
        return ends

    async def _ask(
        self, broker_id: BrokerId, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, LogEnd | None]:
        names: dict[TopicId, str] = {}
        request = self._request(partitions, names)
        if broker_id == self._own_id:
            return _ends(await self.answer(request), names)
        from ottla.wire.messages.get_replica_log_info import GetReplicaLogInfoResponse

        broker = self._image.brokers.get(broker_id)
        response = await self._peers.ask(
            broker_id, request, GetReplicaLogInfoResponse, purpose=PURPOSE, version=_VERSION
        )
        assert broker is not None, "what is not alive cannot be asked"
        if response.broker_epoch != broker.epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"Broker {broker_id} has another registration by now.",
            )
        return _ends(response, names)

    def _request(
        self, partitions: Sequence[TopicPartition], names: dict[TopicId, str]
    ) -> GetReplicaLogInfoRequest:
        from ottla.wire.messages.get_replica_log_info import (
            GetReplicaLogInfoRequest,
            TopicPartitions,
        )

        asked: dict[str, TopicPartitions] = {}
        for each in partitions:
            if each.topic not in asked:
                topic = self._image.topics.get(each.topic)
                if topic is None:  # The controller has not told its own broker yet.
                    raise KafkaError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        f"The id of {each.topic!r} is unknown.",
                    )
                names[topic.id] = topic.name
                asked[each.topic] = TopicPartitions(topic_id=topic.id)
            asked[each.topic].partitions.append(each.partition)
        return GetReplicaLogInfoRequest(topic_partitions=list(asked.values()))

    # A broker answers

    async def answer(self, request: GetReplicaLogInfoRequest) -> GetReplicaLogInfoResponse:
        from ottla.wire.messages.get_replica_log_info import (
            GetReplicaLogInfoResponse,
            TopicPartitionLogInfo,
        )

        response = GetReplicaLogInfoResponse(broker_epoch=self._replicas.own_epoch())
        topics = response.topic_partition_log_info_list
        left = PARTITIONS_MAX
        slices = Slices(self._clock)
        async for topic in slices.of(request.topic_partitions or ()):
            taken = topic.partitions[:left]
            left -= len(taken)
            response.truncated |= len(taken) < len(topic.partitions)
            if taken:
                infos = [self._info(topic.topic_id, each) async for each in slices.of(taken)]
                topics.append(
                    TopicPartitionLogInfo(topic_id=topic.topic_id, partition_log_info=infos)
                )
        return response

    def _info(self, topic_id: TopicId, number: int) -> PartitionLogInfo:
        from ottla.wire.messages.get_replica_log_info import PartitionLogInfo

        info = PartitionLogInfo(
            partition=number,
            last_written_leader_epoch=-1,
            current_leader_epoch=-1,
            log_end_offset=-1,
        )
        topic = self._image.topics_by_id.get(topic_id)
        if topic is None:
            info.error_code = ErrorCode.UNKNOWN_TOPIC_ID
            return info
        topic_partition = TopicPartition(topic.name, number)
        log = self._logs.get(topic_partition)
        if log is None or log.topic_id not in (None, topic_id):
            # Where a log dir is offline, it may lie there.
            is_known = topic_partition not in self._logs.damaged and all(
                folder.failure is None for folder in self._logs.folders
            )
            info.error_code = (
                ErrorCode.REPLICA_NOT_AVAILABLE if is_known else ErrorCode.KAFKA_STORAGE_ERROR
            )
            return info
        if log.folder.failure is not None:
            info.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return info
        partition = self._replicas.hosted(topic_partition)
        if partition is not None:
            info.current_leader_epoch = partition.leader_epoch
        info.last_written_leader_epoch = log.leader_epochs.latest_epoch
        info.log_end_offset = log.log_end_offset
        return info


def _ends(
    response: GetReplicaLogInfoResponse, names: Mapping[TopicId, str]
) -> dict[TopicPartition, LogEnd | None]:
    """None of those that the broker does not have. Raises KafkaError."""
    ends: dict[TopicPartition, LogEnd | None] = {}
    for topic in response.topic_partition_log_info_list:
        for info in topic.partition_log_info:
            each = TopicPartition(names.get(topic.topic_id, ""), info.partition)
            if not info.error_code:
                ends[each] = LogEnd(info.last_written_leader_epoch, info.log_end_offset)
            elif info.error_code == ErrorCode.REPLICA_NOT_AVAILABLE:
                ends[each] = None
            else:
                raise KafkaError(ErrorCode(info.error_code), f"It cannot say where {each} ends.")
    return ends
