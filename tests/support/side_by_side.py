"""The same requests to Ottla and to Apache Kafka, and their answers in a form that compares."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.records.batch import BatchHeader, iter_headers
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.wire.api import APIS, ApiKey
from ottla.wire.messages import incremental_alter_configs
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.schema import Request
from tests.support.raw_client import RawClient, as_dict

NOW_MS = time.time_ns() // 1_000_000

# What no two brokers have in common. Everything else is compared.
_OWN = frozenset({"host", "port", "cluster_id", "log_dir", "total_bytes", "usable_bytes"})
_IDS = frozenset({"topic_id", "session_id", "producer_id"})
_TEXTS = frozenset({"error_message", "batch_index_error_message", "documentation"})

SUBJECTS = ("Ottla", "Apache Kafka")
"""Names of subjects."""


class Subject:
    """One of the two brokers, over one connection."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.client = RawClient(bootstrap)
        self.topic_ids: dict[str, TopicId] = {}

    def __enter__(self) -> Subject:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.client.close()

    def reconnect(self) -> None:
        self.client.close()
        self.client = RawClient(self.bootstrap)

    def ask(self, request: Request, version: int | None = None) -> Any:
        return self.client.ask(request, newest(request) if version is None else version)

    def create(self, topic: str, partition_count: int = 1, **configs: Any) -> None:
        """Setting names with underscores for dots."""
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partition_count,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=name.replace("_", "."), value=value)
                for name, value in configs.items()
            ],
        )
        answer = self.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics[0]
        assert answer.error_code == 0, answer
        self.topic_ids[topic] = answer.topic_id
        self.wait_until_led(topic)

    def wait_until_led(self, topic: str) -> None:
        """Apache Kafka answers before its broker leads the partitions."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        while True:
            found = self.ask(request, 12).topics[0]
            if found.error_code == 0 and all(one.error_code == 0 for one in found.partitions):
                offsets = self.fetch(
                    topic, partitions=[p.partition_index for p in found.partitions]
                )
                if all(one.error_code == 0 for one in offsets.responses[0].partitions):
                    return
            time.sleep(0.02)

    def produce(
        self,
        topic: str,
        records: bytes | bytearray | None,
        *,
        partition: int = 0,
        acks: int = -1,
        version: int = 12,
        transactional_id: str | None = None,
    ) -> Any:
        """The answer for the one partition."""
        request = ProduceRequest(
            acks=acks,
            timeout_ms=10_000,
            transactional_id=transactional_id,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=self.topic_ids.get(topic, NO_TOPIC_ID),
                    partition_data=[
                        PartitionProduceData(
                            index=partition,
                            records=None if records is None else memoryview(bytes(records)),
                        )
                    ],
                )
            ],
        )
        return self.ask(request, version).responses[0].partition_responses[0]

    def batches_of(self, topic: str, partition: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """All that a partition holds. One fetch may not: groups and transactions of other tests
        write to the same internal topics, and a large batch of theirs ends it early."""
        offset = 0
        while True:
            answer = self.fetch(topic, offset, partitions=[partition]).responses[0].partitions[0]
            content = memoryview(bytes(answer.records or b""))
            begin = offset
            for position, header in iter_headers(content, allow_partial=True):
                offset = header.next_offset
                yield header, content[position : position + header.size_bytes]
            if offset == begin:
                assert offset == answer.high_watermark, "a fetch brings at least one batch"
                return

    def make_offsets_topic(self) -> None:
        """It is made for the first group; whether there was one is up to other tests."""
        request = FindCoordinatorRequest(key="any", key_type=0)
        while self.ask(request, 3).error_code:
            time.sleep(0.02)
        self.wait_until_led("__consumer_offsets")

    def fetch(
        self,
        topic: str,
        offset: int = 0,
        *,
        partitions: Sequence[int] = (0,),
        version: int = 12,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        partition_max_bytes: int = 1 << 20,
        topic_id: TopicId | None = None,
        leader_epoch: int = -1,
        **options: Any,
    ) -> Any:
        request = fetch_request(
            topic,
            [
                FetchPartition(
                    partition=partition,
                    fetch_offset=offset,
                    current_leader_epoch=leader_epoch,
                    partition_max_bytes=partition_max_bytes,
                )
                for partition in partitions
            ],
            topic_id=topic_id or self.topic_ids.get(topic, NO_TOPIC_ID),
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            **options,
        )
        return self.ask(request, version)


_GROUP = 32
_SESSION_TIMEOUT = "consumer.session.timeout.ms"
_session_timeouts_ms = itertools.cycle(range(45_001, 60_000))


def settle(client: RawClient) -> None:
    """Apache Kafka acknowledges a change before its broker knows of it. The broker takes changes
    one after the other, each first into what it shows, then into how it acts: once it shows the
    second of these two, which nobody else looks at, it acts on all that came before."""
    for value in map(str, itertools.islice(_session_timeouts_ms, 2)):
        change = incremental_alter_configs.AlterConfigsResource(
            resource_type=_GROUP,
            resource_name="settle",
            configs=[incremental_alter_configs.AlterableConfig(name=_SESSION_TIMEOUT, value=value)],
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[change])
        (answer,) = client.ask(request, newest(request)).responses
        assert answer.error_code == 0, answer
        while _shown_session_timeout(client) != value:
            time.sleep(0.005)


def _shown_session_timeout(client: RawClient) -> str | None:
    resource = DescribeConfigsResource(
        resource_type=_GROUP, resource_name="settle", configuration_keys=[_SESSION_TIMEOUT]
    )
    request = DescribeConfigsRequest(resources=[resource])
    value: str | None = client.ask(request, newest(request)).results[0].configs[0].value
    return value


Both = tuple[Subject, Subject]
"""Ottla, then Apache Kafka."""


def fetch_request(
    topic: str, partitions: list[FetchPartition], *, topic_id: TopicId = NO_TOPIC_ID, **options: Any
) -> FetchRequest:
    topics = [FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)]
    return FetchRequest(topics=topics if partitions else [], **options)


def newest(request: Request) -> int:
    return APIS[ApiKey(request.API_KEY)].advertised_versions[-1]


def a_batch(*values: bytes, timestamp: int = NOW_MS, **options: Any) -> bytearray:
    records = [
        Record(offset, timestamp, b"key", value) for offset, value in enumerate(values or (b"v",))
    ]
    return build_batch(records, **options)


def shown(value: Any) -> Any:
    """An answer without what is each broker's own: ids become whether there is one, a text
    becomes whether there is one, an error code its name."""
    return _shown(as_dict(value))


def _shown(value: Any) -> Any:
    if isinstance(value, list):
        return [_shown(element) for element in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for name, one in value.items():
        if name in _OWN:
            continue
        if name in _TEXTS:
            found[name] = one is not None
        elif name in _IDS:
            found[name] = any(one) if isinstance(one, bytes) else one >= (name == "session_id")
        elif name == "error_code":
            found[name] = ErrorCode(one).name
        else:
            found[name] = _shown(one)
    return found


def assert_alike(both: Both, scenario: Callable[[Subject], Any]) -> Any:
    """Runs it against each. What they answer must be the same; returns it."""
    ottla, kafka = (shown(scenario(subject)) for subject in both)
    different = list(differences(ottla, kafka))
    assert not different, "Ottla and Apache Kafka differ:\n" + "\n".join(different)
    return ottla


def differences(ottla: Any, kafka: Any, path: str = "") -> Iterator[str]:
    """A line for each place where two answers are not the same."""
    if isinstance(ottla, dict) and isinstance(kafka, dict):
        for name in {**ottla, **kafka}:
            yield from differences(
                ottla.get(name, "nothing"), kafka.get(name, "nothing"), f"{path}.{name}"
            )
    elif isinstance(ottla, list) and isinstance(kafka, list) and len(ottla) == len(kafka):
        for index, pair in enumerate(zip(ottla, kafka, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif ottla != kafka and not (path.rpartition(".")[2] in _TEXTS and ottla):  # says more
        yield f"{path}: Ottla {ottla!r}, Apache Kafka {kafka!r}"
