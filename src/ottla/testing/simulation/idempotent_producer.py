"""An idempotent producer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.testing.history.events import Send
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


class Batch(NamedTuple):
    values: list[str]
    content: bytes


class IdempotentProducer:
    """Sends to each partition one batch after another, several of them in flight, until it is told
    to stop. Then everything it has sent is acknowledged."""

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
        client = self._client

        async def init() -> InitProducerIdResponse:
            answer = await client.ask_any(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
                InitProducerIdResponse,
            )
            check(answer.error_code)
            return answer

        answer = await client.insist(init, gives_up_on=frozenset())
        sequences = Sequences(ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch))
        async with asyncio.TaskGroup() as tasks:
            for partition in self._partitions:
                tasks.create_task(self._send_to(partition, sequences))

    async def _send_to(self, partition: TopicPartition, sequences: Sequences) -> None:
        """Up to five batches are in flight, as with real producers. One alone is, at first and
        after a failure: a partition that does not know the producer takes any sequence."""
        client = self._client
        in_flight: list[Batch] = []
        count_max = 1
        while in_flight or not client.is_stopping:
            while not client.is_stopping and len(in_flight) < count_max:
                values = self._new_values(partition)
                batch = sequences.batch(partition, values, self._now_ms())
                in_flight.append(Batch(values, batch))
            left = await self._send(partition, in_flight[:count_max])
            is_all_there = not left
            in_flight = left + in_flight[count_max:]
            count_max = client.rng.randint(1, IN_FLIGHT_MAX) if is_all_there else 1
            if is_all_there:
                await asyncio.sleep(client.rng.uniform(0, 0.2))

    async def _send(self, partition: TopicPartition, batches: list[Batch]) -> list[Batch]:
        """Those that are to be sent again."""
        client = self._client
        answers: Sequence[PartitionProduceResponse | OSError | Refused]
        try:
            answers = await send_batches(client, partition, [each.content for each in batches])
        except (OSError, Refused) as error:
            answers = [error] * len(batches)
        left = []
        for batch, answer in zip(batches, answers, strict=True):
            if isinstance(answer, Refused) and answer.code in PRODUCE_FAILURES:
                # Behind one that was not taken its sequence is too high.
                is_behind = answer.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and left
                assert is_behind, f"{client.name} was told {answer} for {batch.values}"
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
