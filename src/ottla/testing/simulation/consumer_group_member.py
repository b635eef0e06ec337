"""A member of a consumer group of KIP-848: the broker assigns, and a heartbeat says everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicId, TopicPartition
from ottla.testing.history.events import Assigned, OffsetsFetched
from ottla.testing.simulation.client import GROUP, Refused, SimulatedClient, check
from ottla.testing.simulation.group_consumer import SESSION_TIMEOUT_MS, GroupConsumer
from ottla.testing.simulation.reading import fetch_offsets
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_JOIN, _LEAVE = 0, -1
"""Epochs of a member."""

_FALL_OUT = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    }
)


class ConsumerGroupMember(GroupConsumer):
    """Gives up what it is told to when it has committed that, and says so before another gets it.

    A heartbeat without an answer is sent again, as a whole. After a commit without one the member
    is another: the commit may still come, and must find nobody of its name in the group."""

    def __init__(self, client: SimulatedClient, group: str, topics: Sequence[str]) -> None:
        super().__init__(client, group, topics)
        self._names: dict[TopicId, str] = {}
        self._new_member_id()

    def _new_member_id(self) -> None:
        self._member_id = f"{self._client.name}-{self._client.rng.getrandbits(64):016x}"
        self._generation = _JOIN

    def _fall_out(self, code: ErrorCode | None) -> None:
        super()._fall_out(code)
        self._generation = _JOIN
        if code is None:
            self._new_member_id()

    async def _join(self) -> None:
        self._generation = _JOIN
        await self._beat()

    async def _beat(self) -> None:
        answer = await self._client.insist(self._send_heartbeat, gives_up_on=_FALL_OUT)
        self._generation = answer.member_epoch
        if answer.assignment is not None:
            await self._take(await self._named(answer.assignment.topic_partitions))

    async def _send_heartbeat(self) -> ConsumerGroupHeartbeatResponse:
        owned: dict[str, list[int]] = {}
        for topic, number in self.positions:
            owned.setdefault(topic, []).append(number)
        ids = {name: topic_id for topic_id, name in self._names.items()}
        answer = await self._client.ask_coordinator(
            GROUP,
            self._group,
            ConsumerGroupHeartbeatRequest(
                group_id=self._group,
                member_id=self._member_id,
                member_epoch=self._generation,
                rebalance_timeout_ms=SESSION_TIMEOUT_MS,
                subscribed_topic_names=list(self._topics),
                topic_partitions=[
                    TopicPartitions(topic_id=ids[topic], partitions=numbers)
                    for topic, numbers in owned.items()
                ],
            ),
            ConsumerGroupHeartbeatResponse,
        )
        check(answer.error_code)
        return answer

    async def _named(self, given: Iterable[TopicPartitions]) -> list[TopicPartition]:
        found = []
        for of_topic in given:
            while of_topic.topic_id not in self._names:
                answer = await self._client.insist(
                    lambda: self._client.metadata(*self._topics), gives_up_on=frozenset()
                )
                self._names |= {each.topic_id: each.name or "" for each in answer.topics}
                await self._client.pause()
            name = self._names[of_topic.topic_id]
            found += [TopicPartition(name, number) for number in of_topic.partitions]
        return found

    async def _take(self, assigned: list[TopicPartition]) -> None:
        client = self._client
        if not self.positions.keys() <= {*assigned}:
            await self._commit()
        kept = {each: offset for each, offset in self.positions.items() if each in assigned}
        new = [each for each in assigned if each not in kept]
        if new:
            since = client.history.now
            offsets = await client.insist(
                lambda: fetch_offsets(
                    client,
                    self._group,
                    new,
                    member_id=self._member_id,
                    member_epoch=self._generation,
                ),
                gives_up_on=_FALL_OUT,
            )
            client.history.add(OffsetsFetched(client.name, self._group, offsets, since))
            kept |= {each: max(0, offset) for each, offset in offsets.items()}
        if kept.keys() != self.positions.keys():
            self.rebalance_count += 1
            self.positions = kept
            client.history.add(Assigned(client.name, dict(kept)))
            await self._beat()  # So that others get what was given up.

    async def _leave(self) -> None:
        """Once, heard or not: else its session ends it."""
        self._generation = _LEAVE
        self.positions = {}
        try:
            await self._send_heartbeat()
        except (OSError, Refused):
            return
