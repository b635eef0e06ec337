"""Asks the controller for what leaders of this broker want their in-sync replicas to be (KIP-497).

One AlterPartition is in flight, with all partitions that want one; what is wanted meanwhile goes
with the next. What the answer says of a partition:

    no error                       the set is the committed one
    refused for good               the set as it was is the committed one
    the controller knows more      both sets count until LeaderAndIsr tells
    anything else, or no answer    it is asked for again, after a pause
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import islice

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicId
from ottla.replication.in_sync_replicas import Proposal
from ottla.replication.leader import Leader
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionDataResult,
    TopicData,
)

logger = logging.getLogger(__name__)

AskController = Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]]
"""Raises OSError or KafkaError where there is none, or none that answers."""

PARTITIONS_MAX = 1000
"""In one request: a controller of ten thousand partitions has others to serve as well."""

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0

_REFUSED = (
    ErrorCode.OPERATION_NOT_ATTEMPTED,
    ErrorCode.INELIGIBLE_REPLICA,
    ErrorCode.INVALID_REQUEST,
)
_CONTROLLER_KNOWS_MORE = (
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)


class AlterPartitionManager:
    """Owned by the broker. What it has not asked for when the broker dies the next leader finds out
    anew, from what its followers fetch."""

    def __init__(
        self,
        own_id: BrokerId,
        *,
        own_epoch: Callable[[], int],
        ask_controller: AskController,
    ) -> None:
        """`own_epoch` is that with which this broker is registered now."""
        self._own_id = own_id
        self._own_epoch = own_epoch
        self._ask_controller = ask_controller
        self._wanted: dict[Leader, Proposal] = {}
        self._asking: asyncio.Task[None] | None = None
        self._is_closed = False

    def submit(self, leader: Leader, proposal: Proposal) -> None:
        """Of a leader that has just made it."""
        if self._is_closed:
            return
        self._wanted[leader] = proposal
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask_for_all())

    async def close(self) -> None:
        self._is_closed = True
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _ask_for_all(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while wanted := self._next():
            try:
                await self._ask(wanted)
            except (OSError, KafkaError) as error:  # A TimeoutError is an OSError.
                logger.info(
                    "the in-sync replicas of %d partitions wait for the controller: %s",
                    len(self._wanted),
                    str(error) or "it did not answer in time",
                )
            except Exception:  # A bug of ours: one partition is not to stop all others for ever.
                logger.exception("what the controller says of in-sync replicas was not understood")
            if any(self._wanted.get(leader) is proposal for leader, proposal in wanted.items()):
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            else:
                pause_s = _FIRST_PAUSE_S
        self._asking = None

    def _next(self) -> dict[Leader, Proposal]:
        """Without those that LeaderAndIsr has settled meanwhile."""
        for leader, proposal in list(self._wanted.items()):
            if leader.in_sync.proposal is not proposal or leader.is_closed:
                del self._wanted[leader]
        return dict(islice(self._wanted.items(), PARTITIONS_MAX))

    async def _ask(self, wanted: dict[Leader, Proposal]) -> None:
        response = await self._ask_controller(self._request(wanted))
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), "the controller refuses to be asked")
        results = {
            (topic.topic_id, result.partition_index): result
            for topic in response.topics
            for result in topic.partitions
        }
        for leader, proposal in wanted.items():
            result = results.get(_key(leader))
            if result is None or not self._settles(leader, proposal, result):
                continue
            if self._wanted.get(leader) is proposal:
                del self._wanted[leader]

    def _request(self, wanted: dict[Leader, Proposal]) -> AlterPartitionRequest:
        topics: dict[TopicId, TopicData] = {}
        own_epoch = self._own_epoch()
        for leader, proposal in wanted.items():
            topic_id, index = _key(leader)
            topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id))
            topic.partitions.append(
                PartitionData(
                    partition_index=index,
                    leader_epoch=leader.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(
                            broker_id=each,
                            broker_epoch=own_epoch
                            if each == self._own_id
                            else proposal.broker_epochs[each],
                        )
                        for each in sorted(proposal.isr)
                    ],
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._own_id, broker_epoch=own_epoch, topics=list(topics.values())
        )

    def _settles(self, leader: Leader, proposal: Proposal, result: PartitionDataResult) -> bool:
        """Whether there is nothing more to ask for."""
        at = leader.topic_partition
        code = ErrorCode(result.error_code)
        if code is ErrorCode.NONE:
            if result.leader_epoch == leader.leader_epoch:
                leader.isr_answered(proposal, map(BrokerId, result.isr), result.partition_epoch)
                logger.info("%s: the in-sync replicas are %s", at, sorted(leader.in_sync.committed))
            return True
        logger.info(
            "%s: the in-sync replicas %s are refused with %s", at, sorted(proposal.isr), code.name
        )
        if code in _REFUSED:
            leader.isr_refused(proposal)
            return True
        return code in _CONTROLLER_KNOWS_MORE


def _key(leader: Leader) -> tuple[TopicId, int]:
    return leader.partition.topic_id, leader.topic_partition.partition
