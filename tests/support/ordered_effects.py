"""Clients of a simulated broker that hold it to two promises: the requests of a connection take
effect in the order in which they were sent, and each of them as a whole or not at all; also over
crashes.

Each client has topics, partitions or groups that nobody else writes to, and so knows what must be
there. What it asked for when the broker died may have been done or not; the next look at it tells.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from ottla.kernel.errors import ErrorCode
from ottla.kernel.transport import Network
from ottla.records.batch import iter_headers
from ottla.records.record import iter_records
from ottla.replication.partition import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse
from tests.support.raw_group import commit_request, fetch_request
from tests.support.requests_in_flight import InFlight
from tests.support.simulated_broker import make_batch, produce_request

PORT = 9092
COMMITTED_PARTITIONS = 6
METADATA_BYTES_MAX = 4000
"""Of each partition: a commit of all may be more than a batch of the coordinator may hold."""

_PAUSE_S = 0.02
_TRY_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
"""Nothing was done then."""


def create_request(name: str, partition_count: int, config: dict[str, str]) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=name,
        num_partitions=partition_count,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in config.items()],
    )
    return CreateTopicsRequest(topics=[topic])


def _list_request(topic: str, timestamp: int) -> tuple[ListOffsetsRequest, int]:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return (
        ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
        ),
        9,
    )


def _listed(answer: Any) -> int | None:
    """None where it was not told."""
    if answer is None:
        return None
    found = answer.topics[0].partitions[0]
    return found.offset if found.error_code == ErrorCode.NONE else None


async def read_values(client: InFlight, topic: str) -> dict[int, bytes] | None:
    """All of a topic of one partition, by offset; None where the broker died or does not lead it
    yet."""
    values: dict[int, bytes] = {}
    offset = _listed(await client.ask_one(*_list_request(topic, EARLIEST_TIMESTAMP)))
    while offset is not None:
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=2000)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[asked])]
        )
        answer = await client.ask_one(request, 11)
        if answer is None:
            return None
        found = answer.responses[0].partitions[0]
        if found.error_code != ErrorCode.NONE:
            return None
        assert isinstance(found.records, memoryview)
        for at, header in iter_headers(found.records, allow_partial=True):
            for record in iter_records(found.records[at : at + header.size_bytes]):
                assert record.value is not None
                values[record.offset] = record.value
            offset = header.next_offset
        if offset >= found.high_watermark:
            return values
    return None


class Committer:
    """Commits offsets of one group, several times at once, all partitions to the same number."""

    def __init__(self, network: Network, rng: random.Random, group_id: str, topic: str) -> None:
        self._client = InFlight(network, PORT, rng)
        self._rng = rng
        self._group_id = group_id
        self._topic = topic
        self._partitions = list(range(COMMITTED_PARTITIONS))
        self._last = 0
        self._possible = {-1}
        """What may be found: the last that was acknowledged, or one that nobody heard of since."""

    async def run(self, round_count: int) -> None:
        for _ in range(round_count):
            numbers = [self._last + 1 + each for each in range(self._rng.randint(1, 10))]
            self._last = numbers[-1]
            requests = [(self._commit(number), 9) for number in numbers]
            look = fetch_request(9, self._group_id, {self._topic: self._partitions})
            *committed, found = await self._client.ask(*requests, (look, 9))
            for number, answer in zip(numbers, committed, strict=True):
                self._take_commit(number, answer)
            self._take_look(found)
            await asyncio.sleep(self._rng.uniform(0, 0.1))
        while not self._take_look(await self._client.ask_one(look, 9)):
            await asyncio.sleep(_PAUSE_S)
        self._client.close()

    def _commit(self, number: int) -> Any:
        # One batch for most, two or three if they were split, and too much for one for some.
        padding = "x" * self._rng.choice((0, 0, 0, 0, 1000, METADATA_BYTES_MAX))
        offsets = {self._topic: dict.fromkeys(self._partitions, number)}
        return commit_request(self._group_id, offsets, metadata=padding)

    def _take_commit(self, number: int, answer: Any) -> None:
        if answer is None:
            self._possible.add(number)
            return
        (code,) = {one.error_code for one in answer.topics[0].partitions}
        if code == ErrorCode.NONE:
            self._possible = {number}
        else:
            # It is too large, or the coordinator was loading: both times nothing was written.
            assert code in (*_TRY_AGAIN, ErrorCode.UNKNOWN_SERVER_ERROR), ErrorCode(code).name

    def _take_look(self, answer: Any) -> bool:
        if answer is None or answer.groups[0].error_code in _TRY_AGAIN:
            return False
        partitions = answer.groups[0].topics[0].partitions
        found = {one.committed_offset for one in partitions}
        assert len(found) == 1, f"a commit of {self._group_id} is there in part: {sorted(found)}"
        assert found <= self._possible, (
            f"{self._group_id} has committed {self._possible}, and {found} is stored"
        )
        self._possible = found
        return True


class Appender:
    """Writes to a topic of its own, several batches at once, and asks for its end before and behind
    them. What is not acknowledged is not sent again."""

    def __init__(self, network: Network, rng: random.Random, topic: str) -> None:
        self._client = InFlight(network, PORT, rng)
        self._rng = rng
        self._topic = topic
        self._sent: list[bytes] = []
        self._acknowledged: dict[int, bytes] = {}
        self._seen_end = 0

    async def run(self, round_count: int) -> None:
        for _ in range(round_count):
            batches = [self._new_batch() for _ in range(self._rng.randint(1, 4))]
            look = _list_request(self._topic, LATEST_TIMESTAMP)
            produced = [(self._request(values), 9) for values in batches]
            first, *answers, last = await self._client.ask(look, *produced, look)
            self._take(batches, produced, answers, _listed(first), _listed(last))
            await asyncio.sleep(self._rng.uniform(0, 0.1))
        await self._check_log()
        self._client.close()

    def _new_batch(self) -> list[bytes]:
        count = self._rng.randint(1, 4)
        values = [f"{self._topic}-{len(self._sent) + each}".encode() for each in range(count)]
        self._sent += values
        return values

    def _request(self, values: list[bytes]) -> ProduceRequest:
        acks = self._rng.choice((-1, -1, 1, 0))
        return produce_request(self._topic, make_batch(*values, timestamp=0), acks=acks)

    def _take(
        self,
        batches: list[list[bytes]],
        produced: list[tuple[ProduceRequest, int]],
        answers: list[Any],
        first_end: int | None,
        last_end: int | None,
    ) -> None:
        expected_end = first_end
        for values, (request, _), answer in zip(batches, produced, answers, strict=True):
            is_appended = request.acks == 0 if answer is None else self._take_answer(values, answer)
            if expected_end is not None:
                expected_end = expected_end + len(values) if is_appended else None
        for end in (first_end, last_end):
            if end is not None:
                assert end >= self._seen_end, (
                    f"{self._topic} ended at {self._seen_end}, and now at {end}"
                )
                self._seen_end = end
        if expected_end is not None and last_end is not None:
            assert last_end == expected_end, (
                f"{self._topic} was asked for its end behind records up to {expected_end}, and "
                f"said {last_end}"
            )

    def _take_answer(self, values: list[bytes], answer: ProduceResponse) -> bool:
        """Whether they were appended."""
        (partition,) = answer.responses[0].partition_responses
        if partition.error_code != ErrorCode.NONE:
            assert partition.error_code in _TRY_AGAIN, ErrorCode(partition.error_code).name
            return False
        for offset, value in enumerate(values, partition.base_offset):
            known = self._acknowledged.setdefault(offset, value)
            assert known == value, f"two values were acknowledged for {self._topic}@{offset}"
        return True

    async def _check_log(self) -> None:
        while (stored := await read_values(self._client, self._topic)) is None:
            await asyncio.sleep(_PAUSE_S)
        for offset, value in self._acknowledged.items():
            assert stored.get(offset) == value, f"the acknowledged {value!r} at {offset} is lost"
        numbers = [self._sent.index(value) for value in stored.values()]
        assert numbers == sorted(set(numbers)), f"{self._topic} has lost its order: {numbers}"
        assert len(stored) >= self._seen_end


class TopicReplacer:
    """Makes a topic, writes to it, and deletes it while it makes another of the same name. Records
    tell by the topic's id which topic they were written to."""

    def __init__(
        self,
        network: Network,
        rng: random.Random,
        name: str,
        config: dict[str, str],
        maybe_crash: Callable[[float], None],
    ) -> None:
        self._client, self._other = InFlight(network, PORT, rng), InFlight(network, PORT, rng)
        self._rng = rng
        self._name = name
        self._config = config
        self._maybe_crash = maybe_crash

    async def run(self, round_count: int) -> None:
        for _ in range(round_count):
            topic_id = await self._ensure_topic()
            self._maybe_crash(0.4)
            await self._write(topic_id)
            await self._check(topic_id)
            delete = DeleteTopicsRequest(topics=[DeleteTopicState(name=self._name)])
            deleting = asyncio.create_task(self._client.ask_one(delete, 6))
            making = asyncio.create_task(self._make_soon())
            await asyncio.sleep(self._rng.uniform(0, 0.02))
            self._maybe_crash(0.6)
            await asyncio.gather(deleting, making)
        await self._check(await self._ensure_topic())
        self._client.close()
        self._other.close()

    async def _make_soon(self) -> None:
        await asyncio.sleep(self._rng.uniform(0, 0.01))
        await self._other.ask_one(create_request(self._name, 1, self._config), 7)

    async def _ensure_topic(self) -> bytes:
        """The id of the topic that has the name now."""
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=self._name)], allow_auto_topic_creation=False
        )
        while True:
            answer = await self._client.ask_one(asked, 12)
            if answer is not None and answer.topics[0].error_code == ErrorCode.NONE:
                topic_id: bytes = answer.topics[0].topic_id
                return topic_id
            await self._client.ask_one(create_request(self._name, 1, self._config), 7)

    async def _write(self, topic_id: bytes) -> None:
        while True:
            batch = make_batch(topic_id.hex().encode(), timestamp=0)
            answer = await self._client.ask_one(produce_request(self._name, batch), 9)
            code = answer and answer.responses[0].partition_responses[0].error_code
            if code == ErrorCode.NONE:
                return
            assert code is None or code in _TRY_AGAIN, ErrorCode(code).name
            await asyncio.sleep(_PAUSE_S)

    async def _check(self, topic_id: bytes) -> None:
        while (stored := await read_values(self._client, self._name)) is None:
            await asyncio.sleep(_PAUSE_S)
        others = set(stored.values()) - {topic_id.hex().encode()}
        assert not others, f"{self._name} serves the records of the topic before"


class Backfiller:
    """Writes old records to a topic that keeps nothing for long: what it writes is to go at once,
    segment after segment, while more is being written."""

    def __init__(self, network: Network, rng: random.Random, topic: str) -> None:
        self._client = InFlight(network, PORT, rng)
        self._rng = rng
        self._topic = topic
        self._last_offset = -1

    async def run(self, round_count: int) -> None:
        for _ in range(round_count):
            requests = [
                (produce_request(self._topic, make_batch(b"old", timestamp=0)), 9)
                for _ in range(self._rng.randint(1, 4))
            ]
            looks = [
                _list_request(self._topic, timestamp)
                for timestamp in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
            ]
            *answers, earliest, latest = await self._client.ask(*requests, *looks)
            for answer in answers:
                if answer is not None:
                    self._take(answer.responses[0].partition_responses[0])
            start, end = _listed(earliest), _listed(latest)
            if start is not None and end is not None:
                assert start <= end, f"{self._topic} begins at {start} and ends at {end}"
                assert end > self._last_offset, f"{self._topic} has lost its end"
            await asyncio.sleep(self._rng.uniform(0, 0.1))
        self._client.close()

    def _take(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.NONE:
            assert answer.base_offset > self._last_offset, f"{self._topic} has lost its end"
            self._last_offset = answer.base_offset
        else:
            assert answer.error_code in _TRY_AGAIN, ErrorCode(answer.error_code).name
