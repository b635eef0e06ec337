"""Questions about transactions whose coordinator is another broker: one AddPartitionsToTxn carries
those of all transactions that wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.membership.peer_batches import PeerBatches
from ottla.membership.peers import Peers
from ottla.server.transaction_verification import Codes, Question
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

PURPOSE = "transactions"


class RemoteVerification:
    """Owned by the broker's verification of transactions."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        # A response names transactions by their ids.
        self._batches = PeerBatches[Question, Codes](
            self._send, key_of=lambda question: question.transactional_id
        )

    async def ask(self, broker_id: BrokerId, question: Question) -> Codes:
        """Raises KafkaError where the broker cannot be asked. Then it may have added the
        partitions all the same, and is asked again by the producer's next attempt."""
        return await self._batches.ask(broker_id, question)

    async def _send(self, broker_id: BrokerId, batch: Sequence[Question]) -> list[Codes]:
        request = AddPartitionsToTxnRequest(transactions=[_as_sent(each) for each in batch])
        response = await self._peers.ask(
            broker_id, request, AddPartitionsToTxnResponse, purpose=PURPOSE
        )
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code))
        found = {
            result.transactional_id: _codes(result.topic_results)
            for result in response.results_by_transaction
        }
        return [_answer(question, found.get(question.transactional_id, {})) for question in batch]


def _as_sent(question: Question) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for topic, number in question.partitions:
        topics.setdefault(topic, []).append(number)
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer.producer_id,
        producer_epoch=question.producer.producer_epoch,
        verify_only=question.is_verified_only,
        topics=[
            AddPartitionsToTxnTopic(name=name, partitions=numbers)
            for name, numbers in topics.items()
        ],
    )


def _codes(results: Iterable[AddPartitionsToTxnTopicResult]) -> Codes:
    return {
        TopicPartition(topic.name, one.partition_index): ErrorCode(one.partition_error_code)
        for topic in results
        for one in topic.results_by_partition
    }


def _answer(question: Question, codes: Codes) -> Codes:
    """What a broker says nothing of it has not vouched for."""
    return {at: codes.get(at, ErrorCode.UNKNOWN_SERVER_ERROR) for at in question.partitions}
