"""What changes in a cluster: counted, and written to the logger `ottla.state_change`, as Kafka has
its state-change.log. That is what to read first when a partition has the wrong leader.

A line is for one partition, or for the controller or the session of a broker:

    broker 2: clicks-0 leads, leader epoch 5
    broker 1 as controller in epoch 3: clicks-0 leader 1 to 2, leader epoch 5, ISR 1,2,3 to 2,3
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.kernel.ids import BrokerId, TopicPartition

logger = logging.getLogger("ottla.state_change")

NO_LEADER = -1


class StateChangeLog:
    """Owned by the broker, from its start to its end. Counts begin anew with each start."""

    def __init__(self, broker_id: BrokerId) -> None:
        self._broker_id = broker_id
        self.isr_shrinks = 0
        self.isr_expands = 0
        """Of partitions that this broker leads, within a leader epoch."""
        self.truncations = 0
        """Of logs of this broker, where they parted from their leader's."""
        self.elections = 0
        """That this broker made as controller; unclean ones among them."""
        self.unclean_elections = 0
        self.session = "connected"
        self.session_expirations = 0

    def replica_changed(
        self, topic_partition: TopicPartition, becomes: str, leader_epoch: int
    ) -> None:
        """This broker leads, follows or stops."""
        logger.debug(
            "broker %d: %s %s, leader epoch %d",
            self._broker_id,
            topic_partition,
            becomes,
            leader_epoch,
        )

    def log_truncated(self, topic_partition: TopicPartition, before: int, after: int) -> None:
        """This broker follows, and has dropped what its leader does not have."""
        self.truncations += 1
        logger.debug(
            "broker %d: %s is truncated from offset %d to %d",
            self._broker_id,
            topic_partition,
            before,
            after,
        )

    def isr_changed(
        self, topic_partition: TopicPartition, before: Iterable[int], after: Iterable[int]
    ) -> None:
        """As the leader sees it."""
        left, joined = set(before).difference(after), set(after).difference(before)
        self.isr_shrinks += bool(left)
        self.isr_expands += bool(joined)
        logger.debug(
            "broker %d: %s ISR %s to %s", self._broker_id, topic_partition, Ids(before), Ids(after)
        )

    def leader_changed(
        self,
        topic_partition: TopicPartition,
        *,
        controller_epoch: int,
        leader: tuple[int, int],
        leader_epoch: int,
        isr: tuple[Iterable[int], Iterable[int]],
        is_new: bool,
        is_unclean: bool,
    ) -> None:
        """Decided by this broker as controller. Pairs have what was and what is. The first leader
        of a new partition is not elected."""
        if not is_new and leader[0] != leader[1] and leader[1] != NO_LEADER:
            self.elections += 1
            self.unclean_elections += is_unclean
        logger.debug(
            "broker %d as controller in epoch %d: "
            "%s leader %s to %s%s, leader epoch %d, ISR %s to %s",
            self._broker_id,
            controller_epoch,
            topic_partition,
            *("none" if each == NO_LEADER else each for each in leader),
            " (unclean)" if is_unclean else "",
            leader_epoch,
            *map(Ids, isr),
        )

    def controller_changed(self, becomes: str, controller_epoch: int) -> None:
        """This broker becomes the controller, or is it no more."""
        logger.debug(
            "broker %d %s controller, epoch %d", self._broker_id, becomes, controller_epoch
        )

    def session_changed(self, state: str) -> None:
        """Of this broker in the coordination store."""
        if state == self.session:
            return
        self.session = state
        self.session_expirations += state == "expired"
        logger.debug("broker %d: its session is %s", self._broker_id, state)


class Ids:
    """Ids of brokers, made text only where somebody reads them."""

    __slots__ = ("_ids",)

    def __init__(self, ids: Iterable[int]) -> None:
        self._ids = ids

    def __str__(self) -> str:
        return ",".join(map(str, sorted(self._ids))) or "none"
