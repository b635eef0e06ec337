"""Real brokers on simulated hosts, under a controller that does what a test says.

The controller keeps what it decided in memory, but for the topics, which are in the store. It tells
brokers by real UpdateMetadata and LeaderAndIsr requests, from a host of its own, so that it can be
cut off, too. What leaders ask of it (AlterPartition) comes by a plain call that takes as long, and
fails as a connection would.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, TypeVar

from ottla.broker import Broker
from ottla.client.connection import ClientConnection
from ottla.controller.producer_id_blocks import BLOCK_SIZE, next_block
from ottla.coordination import znodes
from ottla.coordination.store import Store
from ottla.coordination.znodes import ReplicaAssignment, TopicAssignment
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicId, TopicPartition, new_topic_id
from ottla.replication.alter_partition_manager import AskController
from ottla.replication.partition import Partition
from ottla.testing.loop import VirtualClock, VirtualLoop, run_virtual
from ottla.testing.machine import SimulatedMachine
from ottla.testing.network import CLIENT, SimulatedNetwork
from ottla.testing.store import MemoryEnsemble, MemoryStore
from ottla.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionDataResult,
    TopicDataResult,
)
from ottla.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from ottla.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse
from ottla.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from ottla.wire.schema import Request, Response
from tests.support.simulated_broker import make_batch, produce_request

R = TypeVar("R", bound=Response)

PORT = 9092
CONTROLLER = "controller"
REQUEST_TIMEOUT_S = 5.0


def host_of(broker_id: int) -> str:
    return f"broker{broker_id}"


class ScriptedController:
    """What a broker asks of the controller, as a plain call."""

    def __init__(self, alter_partition: AskController, store: Store) -> None:
        self.alter_partition = alter_partition
        self._store = store

    async def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest
    ) -> AllocateProducerIdsResponse:
        node = await self._store.get(znodes.PRODUCER_ID_BLOCK)
        block = next_block(znodes.decode_producer_id_block(node.data), request.broker_id)
        await self._store.set(znodes.PRODUCER_ID_BLOCK, znodes.encode_producer_id_block(block))
        return AllocateProducerIdsResponse(
            producer_id_start=block.first_producer_id, producer_id_len=BLOCK_SIZE
        )

    async def controlled_shutdown(
        self, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        return ControlledShutdownResponse()


class MemberBroker(Broker):
    """One whose controller is elsewhere, and which is no candidate itself."""

    def __init__(self, *args: Any, ask_controller: AskController, **kwargs: Any) -> None:
        self._ask_controller = ask_controller
        super().__init__(*args, **kwargs)

    def _make_controller_channel(self) -> Any:
        return ScriptedController(self._ask_controller, self._store)

    async def _join_cluster(self, passed: Callable[[str], None], *, adopts_logs: bool) -> None:
        """Whoever tells it comes later."""
        self._config_changes.follow(self.image)
        self._follower.start()
        self._serve()


class ScriptedPartition:
    """As the controller has decided."""

    def __init__(self, replicas: Iterable[int]) -> None:
        self.replicas = tuple(replicas)
        self.isr = self.replicas
        self.leader = self.replicas[0]
        self.leader_epoch = 0
        self.partition_epoch = 0


class SimulatedCluster:
    """Brokers 1 to `broker_count`, each on its host. Lives as long as its loop."""

    def __init__(
        self, loop: VirtualLoop, rng: random.Random, broker_count: int, settings: dict[str, str]
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.network = SimulatedNetwork(loop, rng)
        ensemble = MemoryEnsemble()
        self._store = MemoryStore(ensemble)
        self.machines = {
            broker_id: SimulatedMachine(
                {
                    "broker.id": str(broker_id),
                    "listeners": f"PLAINTEXT://{host_of(broker_id)}:{PORT}",
                    **settings,
                },
                loop,
                rng,
                self.network.host(host_of(broker_id)),
                ensemble,
                make_broker=partial(MemberBroker, ask_controller=self.alter_partition),
            )
            for broker_id in range(1, broker_count + 1)
        }
        self.alive: set[int] = set()
        self.topic_ids: dict[str, TopicId] = {}
        self.partitions: dict[TopicPartition, ScriptedPartition] = {}
        self.controller_epoch = 1
        self.latency_s_max = 0.005
        """Of what leaders ask of the controller, and of the answer."""
        self._now_ms = VirtualClock(loop).now_ms
        self._connections: dict[tuple[str, int], ClientConnection] = {}

    # Brokers

    async def start(self, *broker_ids: int) -> None:
        """These, or all; and tells everybody."""
        if not self._store.session_id:
            await self._store.open()
        for broker_id in broker_ids or self.machines:
            await self.machines[broker_id].start()
            self.alive.add(broker_id)
        await self.tell()

    def kill(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self._is_dead(broker_id)
            self.machines[broker_id].kill()

    def lose_power(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self._is_dead(broker_id)
            self.machines[broker_id].lose_power()

    def _is_dead(self, broker_id: int) -> None:
        self.alive.discard(broker_id)
        for key in [key for key in self._connections if key[1] == broker_id]:
            self._connections.pop(key).close()

    async def stop(self) -> None:
        for broker_id in sorted(self.alive):
            await self.machines[broker_id].stop()

    def hosted(self, broker_id: int, topic_partition: TopicPartition) -> Partition:
        found = self.machines[broker_id].broker.replicas.hosted(topic_partition)
        assert found is not None, f"{topic_partition} is not on broker {broker_id}"
        return found

    def isolate(self, broker_id: int, *from_hosts: str) -> None:
        """From these hosts, both ways."""
        for host in from_hosts:
            self.network.cut(host, host_of(broker_id))
            self.network.cut(host_of(broker_id), host)

    def rejoin(self, broker_id: int, *from_hosts: str) -> None:
        for host in from_hosts:
            self.network.heal(host, host_of(broker_id))
            self.network.heal(host_of(broker_id), host)

    # The controller

    async def create_topic(self, name: str, *replicas: Iterable[int]) -> None:
        """With a partition for each of these lists, led by the first of it."""
        self.topic_ids[name] = topic_id = new_topic_id(self.rng)
        assigned = {number: ReplicaAssignment(tuple(each)) for number, each in enumerate(replicas)}
        # Brokers look for it when they start: logs of no topic are set aside.
        data = znodes.encode_topic(TopicAssignment(topic_id, assigned))
        await self._store.create(znodes.topic_path(name), data)
        for number, each in assigned.items():
            self.partitions[TopicPartition(name, number)] = ScriptedPartition(each.replicas)
        await self.tell()

    async def elect(
        self, topic_partition: TopicPartition, leader: int, isr: Iterable[int] | None = None
    ) -> None:
        """In a new leader epoch; without a set, the ISR stays as it is."""
        partition = self.partitions[topic_partition]
        partition.leader = leader
        partition.isr = partition.isr if isr is None else tuple(isr)
        partition.leader_epoch += 1
        partition.partition_epoch += 1
        await self.tell()

    async def tell(self) -> None:
        """All brokers of all that was decided. Who cannot be reached does not hear of it."""
        await asyncio.gather(*(self._tell(each) for each in sorted(self.alive)))

    async def _tell(self, broker_id: int) -> None:
        if not self.reaches(broker_id):
            return
        epoch = self.machines[broker_id].broker.broker_epoch
        try:
            await self.ask(
                broker_id,
                self._update_metadata(epoch),
                UpdateMetadataResponse,
                8,
                own_host=CONTROLLER,
            )
            response = await self.ask(
                broker_id,
                self._leader_and_isr(broker_id, epoch),
                LeaderAndIsrResponse,
                7,
                own_host=CONTROLLER,
            )
        except OSError:
            if broker_id in self.alive and self.reaches(broker_id):
                raise
            return
        errors = [each.error_code for topic in response.topics for each in topic.partition_errors]
        assert set(errors) <= {ErrorCode.NONE}, errors

    def reaches(self, broker_id: int) -> bool:
        """Whether the controller does, and is reached."""
        host = host_of(broker_id)
        return not (self.network.is_cut(CONTROLLER, host) or self.network.is_cut(host, CONTROLLER))

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """A leader asks. It may be answered though it does not hear of it."""
        host = host_of(request.broker_id)
        await asyncio.sleep(self.rng.uniform(0, self.latency_s_max))
        if self.network.is_cut(host, CONTROLLER):
            raise TimeoutError("the controller did not hear it")
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        topics = [
            TopicDataResult(
                topic_id=topic.topic_id,
                partitions=[
                    self._alter(
                        request.broker_id,
                        TopicPartition(names[topic.topic_id], each.partition_index),
                        each,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        await asyncio.sleep(self.rng.uniform(0, self.latency_s_max))
        if self.network.is_cut(CONTROLLER, host):
            raise TimeoutError("the answer was lost")
        return AlterPartitionResponse(topics=topics)

    def _alter(
        self, broker_id: int, topic_partition: TopicPartition, asked: PartitionData
    ) -> PartitionDataResult:
        state = self.partitions[topic_partition]
        isr = tuple(each.broker_id for each in asked.new_isr_with_epochs)
        result = PartitionDataResult(partition_index=topic_partition.partition)
        if (asked.leader_epoch, broker_id) != (state.leader_epoch, state.leader):
            result.error_code = ErrorCode.FENCED_LEADER_EPOCH
        elif not all(map(self._is_registered, asked.new_isr_with_epochs)):
            result.error_code = ErrorCode.INELIGIBLE_REPLICA
        elif {*isr} != {*state.isr} and asked.partition_epoch != state.partition_epoch:
            result.error_code = ErrorCode.INVALID_UPDATE_VERSION
        else:
            if {*isr} != {*state.isr}:
                state.isr = isr
                state.partition_epoch += 1
            result.leader_id = state.leader
            result.leader_epoch = state.leader_epoch
            result.isr = list(state.isr)
            result.partition_epoch = state.partition_epoch
        return result

    def _is_registered(self, member: BrokerState) -> bool:
        return (
            member.broker_id in self.alive
            and self.machines[member.broker_id].broker.broker_epoch == member.broker_epoch
        )

    def _update_metadata(self, broker_epoch: int) -> UpdateMetadataRequest:
        brokers = [
            UpdateMetadataBroker(
                id=each,
                endpoints=[
                    UpdateMetadataEndpoint(port=PORT, host=host_of(each), listener="PLAINTEXT")
                ],
                epoch=self.machines[each].broker.broker_epoch,
            )
            for each in sorted(self.alive)
        ]
        topics = {
            name: UpdateMetadataTopicState(topic_name=name, topic_id=topic_id)
            for name, topic_id in self.topic_ids.items()
        }
        for (topic, number), each in self.partitions.items():
            topics[topic].partition_states.append(
                UpdateMetadataPartitionState(
                    partition_index=number,
                    controller_epoch=self.controller_epoch,
                    leader=each.leader,
                    leader_epoch=each.leader_epoch,
                    isr=list(each.isr),
                    zk_version=each.partition_epoch,
                    replicas=list(each.replicas),
                )
            )
        return UpdateMetadataRequest(
            controller_epoch=self.controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=list(topics.values()),
            live_brokers=brokers,
        )

    def _leader_and_isr(self, broker_id: int, broker_epoch: int) -> LeaderAndIsrRequest:
        topics = {
            name: LeaderAndIsrTopicState(topic_name=name, topic_id=topic_id)
            for name, topic_id in self.topic_ids.items()
        }
        for (topic, number), each in self.partitions.items():
            if broker_id in each.replicas:
                topics[topic].partition_states.append(
                    LeaderAndIsrPartitionState(
                        partition_index=number,
                        controller_epoch=self.controller_epoch,
                        leader=each.leader,
                        leader_epoch=each.leader_epoch,
                        isr=list(each.isr),
                        partition_epoch=each.partition_epoch,
                        replicas=list(each.replicas),
                    )
                )
        return LeaderAndIsrRequest(
            controller_epoch=self.controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=list(topics.values()),
        )

    # Clients

    async def ask(
        self,
        broker_id: int,
        request: Request,
        response_class: type[R],
        version: int,
        *,
        own_host: str = CLIENT,
    ) -> R:
        """On a connection that is kept. Raises OSError, TimeoutError among them."""
        key = (own_host, broker_id)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                connection = self._connections.get(key)
                if connection is None or connection.is_lost:
                    connection = self._connections[key] = await ClientConnection.open(
                        self.network.host(own_host), host_of(broker_id), PORT
                    )
                return await connection.call(request, response_class, version)
        except OSError:
            if (lost := self._connections.pop(key, None)) is not None:
                lost.close()
            raise

    async def produce(
        self,
        topic_partition: TopicPartition,
        *values: bytes,
        broker_id: int | None = None,
        **options: int,
    ) -> PartitionProduceResponse:
        """One batch with acks=all, to the leader that the controller has chosen, or to this one.
        Options are those of `build_batch`."""
        topic, number = topic_partition
        batch = make_batch(*values, timestamp=self._now_ms(), **options)
        response = await self.ask(
            broker_id or self.partitions[topic_partition].leader,
            produce_request(topic, batch, partition=number),
            ProduceResponse,
            9,
        )
        return response.responses[0].partition_responses[0]

    def log_of(self, broker_id: int, topic_partition: TopicPartition) -> bytes:
        """What is in its files."""
        log = self.hosted(broker_id, topic_partition).log
        disk = self.machines[broker_id].disk
        return b"".join(
            disk.read_file(f"{log.path}/{each.base_offset:020}.log") for each in log.segments
        )


def with_cluster(
    test: Callable[[SimulatedCluster], Coroutine[Any, Any, None]],
    *,
    broker_count: int = 2,
    seed: int = 0,
    **settings: str,
) -> None:
    """Runs a test against a cluster of its own. Settings are given with underscores."""

    async def main(loop: VirtualLoop) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        cluster = SimulatedCluster(loop, random.Random(seed), broker_count, given)
        await cluster.start()
        await test(cluster)
        await cluster.stop()

    run_virtual(main)
