"""Real brokers on simulated hosts, in virtual time. They elect their controller themselves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from ottla.broker import Broker
from ottla.client.connection import ClientConnection
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.metadata.image import PartitionImage
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.machine import SimulatedMachine
from ottla.testing.network import CLIENT, SimulatedNetwork
from ottla.testing.store import MemoryEnsemble
from ottla.wire.api import APIS, ApiKey
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse
from ottla.wire.schema import Request, Response
from tests.support.simulated_broker import make_batch, produce_request
from tests.support.simulated_cluster import PORT, host_of

R = TypeVar("R", bound=Response)

CLIENTS_PORT = 9093
WAIT_S = 60.0


class ElectedCluster:
    """Brokers 1 to `broker_count`, each on its host, with a listener for brokers and one for
    clients. Lives as long as its loop."""

    def __init__(
        self, loop: VirtualLoop, rng: random.Random, broker_count: int, settings: dict[str, str]
    ) -> None:
        self.network = SimulatedNetwork(loop, rng)
        ensemble = MemoryEnsemble()
        self.machines = {
            broker_id: SimulatedMachine(
                {
                    "broker.id": str(broker_id),
                    "listeners": f"BROKERS://{host_of(broker_id)}:{PORT},"
                    f"CLIENTS://{host_of(broker_id)}:{CLIENTS_PORT}",
                    "listener.security.protocol.map": "BROKERS:PLAINTEXT,CLIENTS:PLAINTEXT",
                    "inter.broker.listener.name": "BROKERS",
                    **settings,
                },
                loop,
                rng,
                self.network.host(host_of(broker_id)),
                ensemble,
            )
            for broker_id in range(1, broker_count + 1)
        }
        self.alive: set[int] = set()
        self._connections: dict[tuple[int, int], ClientConnection] = {}

    async def start(self, *broker_ids: int) -> None:
        for broker_id in broker_ids or self.machines:
            await self.machines[broker_id].start()
            self.alive.add(broker_id)
        await self.until(self._is_heard_of_by_all)

    def _is_heard_of_by_all(self) -> bool:
        return all({*self.image(each).brokers} == self.alive for each in self.alive)

    async def stop(self, *broker_ids: int) -> None:
        for broker_id in broker_ids or sorted(self.alive):
            self.alive.discard(broker_id)
            await self.machines[broker_id].stop()

    def broker(self, broker_id: int) -> Broker:
        return self.machines[broker_id].broker

    def image(self, broker_id: int) -> Any:
        return self.broker(broker_id).image

    @property
    def controller_id(self) -> int:
        (found,) = [each for each in self.alive if self.broker(each).controller.is_active]
        return found

    def partition(self, topic: str, number: int = 0, *, at: int | None = None) -> PartitionImage:
        """As a broker was told, or the controller's."""
        found = self.image(at or self.controller_id).partition(topic, number)
        assert isinstance(found, PartitionImage)
        return found

    async def until(self, condition: Callable[[], bool]) -> None:
        """Time is virtual: it takes no longer for being looked at often."""
        async with asyncio.timeout(WAIT_S):
            while not condition():
                await asyncio.sleep(0.01)

    async def ask(
        self,
        broker_id: int,
        request: Request,
        response_class: type[R],
        version: int | None = None,
        *,
        port: int = CLIENTS_PORT,
    ) -> R:
        """On a connection that is kept; by default in the newest version."""
        connection = self._connections.get((broker_id, port))
        if connection is None or connection.is_lost:
            connection = self._connections[broker_id, port] = await ClientConnection.open(
                self.network.host(CLIENT), host_of(broker_id), port
            )
        if version is None:
            version = APIS[ApiKey(request.API_KEY)].advertised_versions[-1]
        return await connection.call(request, response_class, version)

    async def create_topic(self, name: str, *replicas: Sequence[int], **config: str) -> None:
        """With a partition for each of these lists. Settings are given with underscores."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=number, broker_ids=list(each))
                for number, each in enumerate(replicas)
            ],
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in config.items()
            ],
        )
        response = await self.ask(
            self.controller_id, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse
        )
        (result,) = response.topics
        assert result.error_code == ErrorCode.NONE, result.error_message
        await self.until(lambda: all(name in self.image(each).topics for each in self.alive))

    async def produce(
        self, topic: str, *values: bytes, partition: int = 0, acks: int = -1
    ) -> PartitionProduceResponse:
        """One batch, to the leader."""
        request = produce_request(topic, make_batch(*values), partition=partition, acks=acks)
        leader = self.partition(topic, partition).leader
        response = await self.ask(leader, request, ProduceResponse, 12)
        return response.responses[0].partition_responses[0]

    def content(self, broker_id: int, topic_partition: TopicPartition) -> bytes:
        """Of the log's files."""
        log = self.broker(broker_id).logs.get(topic_partition)
        assert log is not None, f"{topic_partition} is not on broker {broker_id}"
        disk = self.machines[broker_id].disk
        return b"".join(
            disk.read_file(f"{log.path}/{each.base_offset:020}.log") for each in log.segments
        )


def with_elected_cluster(
    test: Callable[[ElectedCluster], Coroutine[Any, Any, None]],
    *,
    broker_count: int = 3,
    seed: int = 0,
    **settings: str,
) -> None:
    """Runs a test against a cluster of its own. Settings are given with underscores."""

    async def main(loop: VirtualLoop) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        cluster = ElectedCluster(loop, random.Random(seed), broker_count, given)
        await cluster.start()
        await test(cluster)
        await cluster.stop()

    run_virtual(main)
