"""Asks the coordinator of a transaction, on whichever broker that is, whether a partition is part
of the transaction, or has it added (KIP-890).

The leader of a partition asks before it appends the first batch of a transaction: what belongs to
none would never be ended, and hold back readers for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinators.transactions.transaction_coordinator import TransactionCoordinator
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, ProducerIdAndEpoch, TopicPartition
from ottla.kernel.internal_topics import TRANSACTION_STATE
from ottla.membership.peers import Peers
from ottla.metadata.image import NO_LEADER, ClusterImage

if TYPE_CHECKING:
    from ottla.server.remote_verification import RemoteVerification

Codes = dict[TopicPartition, ErrorCode]

_UNREACHABLE = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.BROKER_NOT_AVAILABLE,
)


class Question(NamedTuple):
    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: Sequence[TopicPartition]
    is_verified_only: bool
    """Else they are added: by producers of transactions version 2, who do not do that before."""


class TransactionVerification:
    """Owned by the broker."""

    def __init__(
        self,
        own_id: BrokerId,
        image: ClusterImage,
        transactions: TransactionCoordinator,
        peers: Peers,
    ) -> None:
        self._own_id = own_id
        self._image = image
        self._transactions = transactions
        self._peers = peers
        self._remote: RemoteVerification | None = None

    async def ask(self, question: Question) -> Codes:
        """Raises nothing. A coordinator that cannot be asked is NETWORK_EXCEPTION."""
        try:
            coordinator_id = self._coordinator_of(question.transactional_id)
            if coordinator_id == self._own_id:
                return await self._ask_own(question)
            return await self._remote_verification.ask(coordinator_id, question)
        except KafkaError as error:
            code = ErrorCode.NETWORK_EXCEPTION if error.code in _UNREACHABLE else error.code
            return dict.fromkeys(question.partitions, code)

    def _coordinator_of(self, transactional_id: str) -> BrokerId:
        number = self._transactions.partition_of(transactional_id)
        partition = self._image.partition(TRANSACTION_STATE, number)
        if partition is None or partition.leader == NO_LEADER:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return BrokerId(partition.leader)

    async def _ask_own(self, question: Question) -> Codes:
        transactional_id, producer, partitions, is_verified_only = question
        if is_verified_only:
            return await self._transactions.verify_partitions(
                transactional_id, *producer, partitions
            )
        await self._transactions.add_partitions(
            transactional_id, *producer, partitions, transaction_version=2
        )
        return dict.fromkeys(partitions, ErrorCode.NONE)

    @property
    def _remote_verification(self) -> RemoteVerification:
        if self._remote is None:
            from ottla.server.remote_verification import RemoteVerification

            self._remote = RemoteVerification(self._peers)
        return self._remote
