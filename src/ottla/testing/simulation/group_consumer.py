"""A member of a consumer group of the classic protocol: it joins, reads what it is assigned,
commits what it has read, and joins again when the group rebalances."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.testing.history.events import (
    Assigned,
    OffsetsCommitted,
    OffsetsFetched,
    OffsetsListed,
    Polled,
    PolledRecord,
)
from ottla.testing.simulation.client import GROUP, Refused, SimulatedClient, check
from ottla.testing.simulation.reading import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    fetch_committed,
    fetch_offsets,
    list_end_offset,
    start_above,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

SESSION_TIMEOUT_MS = 2000
HEARTBEAT_S = 0.3
PROTOCOL = "split"

_REJOIN = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)


class GroupConsumer:
    """Of a group that reads the partitions of some topics. What it reads it commits some time
    later; another member reads again what was not committed."""

    def __init__(self, client: SimulatedClient, group: str, topics: Sequence[str]) -> None:
        self._client = client
        self._group = group
        self._topics = topics
        self._member_id = ""
        self._generation = -1
        self.positions: dict[TopicPartition, int] = {}
        self.rebalance_count = 0

    async def run(self) -> None:
        while not self._client.is_stopping:
            try:
                await self._join()
                await self._read()
            except Refused as refused:
                self._fall_out(refused.code)
            except OSError:
                self._fall_out(None)
            await self._client.pause()
        await self._leave()

    def _fall_out(self, code: ErrorCode | None) -> None:
        """Refused with a code, or left without an answer."""
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._member_id = ""
        self._client.forget_coordinators()
        self.positions = {}

    async def _leave(self) -> None:
        """Its session ends it."""

    # -- the group ------------------------------------------------------------------------

    async def _join(self) -> None:
        client = self._client
        partitions = await self._partitions()
        answer = await self._ask_to_join()
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            answer = await self._ask_to_join()
        check(answer.error_code)
        self._member_id, self._generation = answer.member_id, answer.generation_id
        assignments = []
        if answer.leader == answer.member_id:
            members = sorted(each.member_id for each in answer.members)
            assignments = [
                SyncGroupRequestAssignment(
                    member_id=member_id,
                    assignment=json.dumps(partitions[number :: len(members)]).encode(),
                )
                for number, member_id in enumerate(members)
            ]
        synced = await client.ask_coordinator(
            GROUP,
            self._group,
            SyncGroupRequest(
                group_id=self._group,
                generation_id=self._generation,
                member_id=self._member_id,
                protocol_type="simulated",
                protocol_name=PROTOCOL,
                assignments=assignments,
            ),
            SyncGroupResponse,
        )
        check(synced.error_code)
        self.rebalance_count += 1
        assigned = [TopicPartition(*each) for each in json.loads(bytes(synced.assignment))]
        since = client.history.now
        offsets = await client.insist(
            lambda: fetch_offsets(client, self._group, assigned), gives_up_on=_REJOIN
        )
        client.history.add(OffsetsFetched(client.name, self._group, offsets, since))
        self.positions = {each: max(0, offset) for each, offset in offsets.items()}
        client.history.add(Assigned(client.name, dict(self.positions)))

    async def _partitions(self) -> list[TopicPartition]:
        found = []
        for topic in self._topics:
            count = await self._client.partition_count(topic)
            found += [TopicPartition(topic, number) for number in range(count)]
        return found

    async def _ask_to_join(self) -> JoinGroupResponse:
        return await self._client.ask_coordinator(
            GROUP,
            self._group,
            JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=SESSION_TIMEOUT_MS,
                member_id=self._member_id,
                protocol_type="simulated",
                protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=b"")],
            ),
            JoinGroupResponse,
        )

    # -- reading --------------------------------------------------------------------------

    async def _read(self) -> None:
        client = self._client
        loop = asyncio.get_running_loop()
        heartbeat_s = loop.time()
        while not client.is_stopping:
            if loop.time() >= heartbeat_s + HEARTBEAT_S:
                heartbeat_s = loop.time()
                await self._beat()
                if client.rng.random() < 0.5:
                    await self._commit()
                await self._look_for_end()
            for partition in list(self.positions):
                await self._poll(partition)
            await asyncio.sleep(client.rng.uniform(0.01, 0.1))
        await self._commit()

    async def _look_for_end(self) -> None:
        """As for its lag."""
        client = self._client
        if not self.positions:
            return
        partition = client.rng.choice(sorted(self.positions))
        is_committed = client.rng.random() < 0.5
        try:
            end = await list_end_offset(
                client, partition, READ_COMMITTED if is_committed else READ_UNCOMMITTED
            )
        except (OSError, Refused):
            client.forget_leader(partition)
        else:
            client.history.add(OffsetsListed(client.name, {partition: end}, is_committed))

    async def _poll(self, partition: TopicPartition) -> None:
        client = self._client
        try:
            records, next_offset = await fetch_committed(
                client, partition, self.positions[partition]
            )
        except OSError:
            client.forget_leader(partition)
            return
        except Refused as refused:
            if refused.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                start = await start_above(client, partition, self.positions[partition])
                self.positions[partition] = start
                client.history.add(Assigned(client.name, dict(self.positions)))
            client.forget_leader(partition)
            return
        self.positions[partition] = next_offset
        if records:
            polled = (PolledRecord(partition, offset, value) for offset, value in records)
            client.history.add(Polled(client.name, tuple(polled)))

    async def _beat(self) -> None:
        answer = await self._client.ask_coordinator(
            GROUP,
            self._group,
            HeartbeatRequest(
                group_id=self._group,
                generation_id=self._generation,
                member_id=self._member_id,
            ),
            HeartbeatResponse,
        )
        check(answer.error_code)

    async def _commit(self) -> None:
        client = self._client
        offsets = dict(self.positions)
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, number), offset in offsets.items():
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=number, committed_offset=offset, committed_metadata=""
                )
            )
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[
                OffsetCommitRequestTopic(name=topic, partitions=each)
                for topic, each in topics.items()
            ],
        )
        try:
            answer = await client.ask_coordinator(
                GROUP, self._group, request, OffsetCommitResponse, 9
            )
        except OSError:
            client.history.add(OffsetsCommitted(client.name, self._group, offsets, False))
            raise
        codes = [each.error_code for topic in answer.topics for each in topic.partitions]
        is_known = not any(codes)
        client.history.add(OffsetsCommitted(client.name, self._group, offsets, is_known))
        for code in codes:
            check(code)
