"""An idempotent producer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.testing.history.events import Send, SendUnknown
from ottla.testing.simulation.client import Refused, SimulatedClient, check
from ottla.testing.simulation.sending import (
    PRODUCE_FAILURES,
    Sequences,
    acknowledge,
    send_batches,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceResponse

VALUES_MAX = 4
IN_FLIGHT_MAX = 5
"""`max.in.flight.requests.per.connection`: as many as a partition remembers of a producer."""


@dataclass
class Batch:
    values: list[str]
    content: bytes
    was_followed: bool = False
    """Whether it was in flight with others behind it."""


class ForgottenBatch(Exception):
    """A broker refuses a batch that may be in its log, with others behind it. When it starts, or
    cuts its log, it reads a snapshot that has one batch of each producer, the last, as Kafka's.
    A real producer tells its user that it cannot know, and goes on as another."""


class IdempotentProducer:
    """Sends to each partition one batch after another, several of them in flight, until it is told
    to stop. Then everything it has sent is acknowledged, or nobody can know."""

    def __init__(
        self,
        client: SimulatedClient,
        partitions: Sequence[TopicPartition],
        now_ms: Callable[[], int],
        acknowledged: Callable[[TopicPartition], None],
    ) -> None:
        self._client = client
        self._partitions = partitions
        self._now_ms = now_ms
        self._acknowledged = acknowledged
        self._sent_count = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for partition in self._partitions:
                tasks.create_task(self._send_to(partition))

    async def _init(self) -> Sequences:
        client = self._client

        async def init() -> InitProducerIdResponse:
            answer = await client.ask_any(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
                InitProducerIdResponse,
            )
            check(answer.error_code)
            return answer

        answer = await client.insist(init, gives_up_on=frozenset())
        return Sequences(ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch))

    async def _send_to(self, partition: TopicPartition) -> None:
        """Up to five batches are in flight, as with real producers. One alone is, at first and
        after a failure: a partition that does not know the producer takes any sequence."""
        client = self._client
        sequences = await self._init()
        in_flight: list[Batch] = []
        count_max = 1
        while in_flight or not client.is_stopping:
            while not client.is_stopping and len(in_flight) < count_max:
                values = self._new_values(partition)
                batch = sequences.batch(partition, values, self._now_ms())
                in_flight.append(Batch(values, batch))
            for each in in_flight[: count_max - 1]:
                each.was_followed = True
            try:
                left = await self._send(partition, in_flight[:count_max])
            except ForgottenBatch:
                for value in (value for batch in in_flight for value in batch.values):
                    client.history.add(SendUnknown(client.name, value))
                sequences, in_flight, count_max = await self._init(), [], 1
                continue
            in_flight = left + in_flight[count_max:]
            count_max = 1 if left else client.rng.randint(1, IN_FLIGHT_MAX)
            if not left:
                await asyncio.sleep(client.rng.uniform(0, 0.2))

    async def _send(self, partition: TopicPartition, batches: list[Batch]) -> list[Batch]:
        """Those that are to be sent again."""
        client = self._client
        answers: Sequence[PartitionProduceResponse | OSError | Refused]
        try:
            answers = await send_batches(client, partition, [each.content for each in batches])
        except (OSError, Refused) as error:
            answers = [error] * len(batches)
        left: list[Batch] = []
        for batch, answer in zip(batches, answers, strict=True):
            if isinstance(answer, Refused) and answer.code in PRODUCE_FAILURES:
                is_out_of_order = answer.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                if is_out_of_order and not left and batch.was_followed:
                    raise ForgottenBatch
                # Behind one that was not taken its sequence is too high.
                assert is_out_of_order, f"{client.name} was told {answer} for {batch.values}"
                assert left, f"{client.name} was told {answer} for {batch.values}"
            if isinstance(answer, Exception):
                left.append(batch)
            else:
                acknowledge(client, batch.values, answer)
                self._acknowledged(partition)
        if left:
            client.note(f"{client.name} sends {len(left)} batches to {partition} again")
            client.forget_leader(partition)
            await client.pause()
        return left

    def _new_values(self, partition: TopicPartition) -> list[str]:
        client = self._client
        values = []
        for _ in range(client.rng.randint(1, VALUES_MAX)):
            self._sent_count += 1
            value = f"{client.name}:{self._sent_count}"
            client.history.add(Send(client.name, value, partition))
            values.append(value)
        return values
