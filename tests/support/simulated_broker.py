"""A broker on fakes and in virtual time, for tests that need one to talk to."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.client.connection import ClientConnection
from ottla.config.definition import ConfigSource
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicId
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.testing.loop import VirtualLoop, run_virtual
from ottla.testing.machine import SimulatedMachine
from ottla.testing.network import SimulatedNetwork
from ottla.testing.store import MemoryEnsemble
from ottla.wire.api import APIS, ApiKey
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

PORT = 9092

OTHER_LISTENER = {
    "listeners": f"PLAINTEXT://localhost:{PORT},BROKERS://localhost:9093",
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter_broker_listener_name": "BROKERS",
}
"""For `with_broker`: brokers have one of their own, and the tests' is another."""


class SimulatedBroker:
    def __init__(
        self,
        loop: VirtualLoop,
        settings: dict[str, str],
        *,
        network: SimulatedNetwork | None = None,
        ensemble: MemoryEnsemble | None = None,
        port: int = PORT,
    ) -> None:
        """Alone on its network and in its cluster, where these are not given."""
        rng = random.Random(0)
        self.loop = loop
        self.port = port
        self.network = network or SimulatedNetwork(loop, rng)
        self.ensemble = ensemble or MemoryEnsemble()
        self.machine = SimulatedMachine(
            {"listeners": f"PLAINTEXT://localhost:{port}", **settings},
            loop,
            rng,
            self.network,
            self.ensemble,
        )
        self._connection: ClientConnection | None = None

    @property
    def broker_epoch(self) -> int:
        """With which it is registered now."""
        return self.machine.broker.broker_epoch

    async def connect(self, port: int | None = None) -> ClientConnection:
        return await ClientConnection.open(self.network, "localhost", port or self.port)

    async def restart(self, end: Callable[[], None] | None = None) -> None:
        """Stops it, or ends it in another way (`machine.kill`), and starts it again."""
        if end is None:
            await self.machine.stop()
        else:
            end()
        await self.start()

    async def start(self) -> None:
        await self.machine.start()
        self._connection = None

    async def call(self, request: Request, response_class: type[R], version: int = -1) -> R:
        """On a connection that is kept; by default in the newest version."""
        if self._connection is None:
            self._connection = await self.connect()
        if version == -1:
            version = APIS[ApiKey(request.API_KEY)].advertised_versions[-1]
        return await self._connection.call(request, response_class, version)

    async def create_topic(self, name: str, partition_count: int = 1, **config: str) -> TopicId:
        """Settings are given with underscores: `retention_ms="1000"`."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partition_count,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in config.items()
            ],
        )
        response = await self.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
        assert response.topics[0].error_code == ErrorCode.NONE, response.topics[0].error_message
        return response.topics[0].topic_id

    async def own_config(self, resource_type: int, name: str) -> dict[str, str | None]:
        """The settings that were made for this topic, group or broker, or (with no name) for all
        brokers while they run."""
        resource = DescribeConfigsResource(
            resource_type=resource_type, resource_name=name, configuration_keys=None
        )
        request = DescribeConfigsRequest(resources=[resource])
        (result,) = (await self.call(request, DescribeConfigsResponse)).results
        own = (
            ConfigSource.TOPIC_CONFIG,
            ConfigSource.GROUP_CONFIG,
            ConfigSource.CLIENT_METRICS_CONFIG,
            ConfigSource.DYNAMIC_BROKER_CONFIG
            if name
            else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        )
        return {one.name: one.value for one in result.configs if one.config_source in own}

    async def produce(
        self, topic: str, *values: bytes, partition: int = 0, timestamp: int = 1_700_000_000_000
    ) -> PartitionProduceResponse:
        """One batch with these values."""
        return await self.produce_batch(
            topic, make_batch(*values, timestamp=timestamp), partition=partition
        )

    async def produce_batch(
        self,
        topic: str,
        batch: bytes | bytearray,
        *,
        partition: int = 0,
        acks: int = -1,
        version: int = 12,
    ) -> PartitionProduceResponse:
        request = produce_request(topic, batch, partition=partition, acks=acks)
        response = await self.call(request, ProduceResponse, version)
        return response.responses[0].partition_responses[0]


def make_batch(*values: bytes, timestamp: int = 1_700_000_000_000, **options: Any) -> bytearray:
    records = [Record(index, timestamp, None, value) for index, value in enumerate(values)]
    return build_batch(records, **options)


def produce_request(
    topic: str, batch: bytes | bytearray, *, partition: int = 0, acks: int = -1
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=memoryview(batch))
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def with_broker(
    test: Callable[[SimulatedBroker], Coroutine[Any, Any, None]], **settings: str
) -> None:
    """Runs a test against a broker of its own. Settings are given with underscores."""

    async def main(loop: VirtualLoop) -> None:
        broker = SimulatedBroker(
            loop, {name.replace("_", "."): value for name, value in settings.items()}
        )
        await broker.machine.start()
        await test(broker)
        await broker.machine.stop()

    run_virtual(main)
