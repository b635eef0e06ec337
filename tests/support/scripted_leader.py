"""A leader whose answers a test writes, as followers see it."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from ottla.kernel.ids import NO_TOPIC_ID, BrokerId, TopicId
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

SESSION_ID = 77


class ScriptedConnection:
    def __init__(self, leader: ScriptedLeader) -> None:
        self._leader = leader
        self.is_closed = False

    async def call(self, request: Request, response_class: type[R], version: int) -> R:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._leader.asked.put_nowait((request, answer))
        response = await answer
        assert isinstance(response, response_class)
        return response

    def close(self) -> None:
        self.is_closed = True


class ScriptedLeader:
    """It has asked nothing of anybody: a test takes a request (`request`), then answers it."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[tuple[Request, asyncio.Future[Any]]] = asyncio.Queue()
        self.connections: list[ScriptedConnection] = []
        self.connected_to: list[BrokerId] = []
        self.refusal: Exception | None = None
        self._unanswered: asyncio.Future[Any] | None = None

    async def connect(self, broker_id: BrokerId) -> ScriptedConnection:
        self.connected_to.append(broker_id)
        if self.refusal is not None:
            raise self.refusal
        connection = ScriptedConnection(self)
        self.connections.append(connection)
        return connection

    async def request(self) -> Request:
        request, self._unanswered = await self.asked.get()
        return request

    async def fetch(self) -> FetchRequest:
        request = await self.request()
        assert isinstance(request, FetchRequest)
        return request

    def answer(self, response: Response) -> None:
        assert self._unanswered is not None, "nothing was asked"
        self._unanswered.set_result(response)

    def fail(self, error: Exception) -> None:
        assert self._unanswered is not None, "nothing was asked"
        self._unanswered.set_exception(error)

    async def answer_fetch(
        self, topic_id: TopicId = NO_TOPIC_ID, *partitions: PartitionData
    ) -> FetchRequest:
        """The next one. Without partitions: nothing new."""
        request = await self.fetch()
        self.answer(fetched(topic_id, *partitions))
        return request


def fetched(topic_id: TopicId = NO_TOPIC_ID, *partitions: PartitionData) -> FetchResponse:
    topics = [FetchableTopicResponse(topic_id=topic_id, partitions=list(partitions))]
    return FetchResponse(session_id=SESSION_ID, responses=topics if partitions else [])


def data(
    partition: int = 0,
    records: bytes | bytearray = b"",
    *,
    high_watermark: int = 0,
    log_start_offset: int = 0,
    error_code: int = 0,
    diverging: tuple[int, int] | None = None,
) -> PartitionData:
    answer = PartitionData(
        partition_index=partition,
        error_code=error_code,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        records=memoryview(records),
    )
    if diverging is not None:
        answer.diverging_epoch = EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    return answer


def positions(request: FetchRequest) -> dict[int, int]:
    """By partition, where a request of one topic wants to read."""
    return {each.partition: each.fetch_offset for each in named(request)}


def named(request: FetchRequest) -> list[FetchPartition]:
    return [partition for topic in request.topics for partition in topic.partitions]
