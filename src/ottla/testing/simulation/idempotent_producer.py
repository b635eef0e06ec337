"""An idempotent producer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.testing.history.events import Send
from ottla.testing.simulation.client import Refused, SimulatedClient, check
from ottla.testing.simulation.sending import (
    PRODUCE_FAILURES,
    Sequences,
    acknowledge,
    send_batch,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

VALUES_MAX = 4


class IdempotentProducer:
    """Sends to each partition one batch after another, until it is told to stop. Then everything
    it has sent is acknowledged."""

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
        client = self._client
        while not client.is_stopping:
            values = self._new_values(partition)
            batch = sequences.batch(partition, values, self._now_ms())
            try:
                answer = await client.insist(
                    partial(send_batch, client, partition, batch),
                    gives_up_on=PRODUCE_FAILURES,
                )
            except Refused as refused:
                raise AssertionError(
                    f"{client.name} was told {refused} for {values} to {partition}"
                ) from refused
            acknowledge(client, values, answer)
            self._acknowledged(partition)
            await asyncio.sleep(client.rng.uniform(0, 0.2))

    def _new_values(self, partition: TopicPartition) -> list[str]:
        client = self._client
        values = []
        for _ in range(client.rng.randint(1, VALUES_MAX)):
            self._sent_count += 1
            value = f"{client.name}:{self._sent_count}"
            client.history.add(Send(client.name, value, partition))
            values.append(value)
        return values
