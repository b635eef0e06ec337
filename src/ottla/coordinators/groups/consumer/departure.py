"""Members go from a consumer group: they leave, or are put out."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TypeVar

from ottla.coordinators.groups.consumer.group import ConsumerGroup, regexes_of
from ottla.coordinators.groups.consumer.member import ConsumerMember
from ottla.coordinators.groups.consumer.records import (
    group_epoch_record,
    member_tombstones,
    regex_tombstone,
)
from ottla.coordinators.groups.consumer.sessions import ConsumerSessions
from ottla.coordinators.groups.consumer.subscription import metadata_hash
from ottla.coordinators.groups.context import GroupContext
from ottla.coordinators.groups.migration import downgrade, may_downgrade
from ottla.coordinators.record import CoordinatorRecord
from ottla.coordinators.result import Planned, Result
from ottla.kernel.errors import KafkaError
from ottla.kernel.slices import Steps

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ConsumerDeparture:
    """Owned by the ConsumerProtocol of a shard."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self.sessions = ConsumerSessions(context, self._expire)

    def remove(
        self, group: ConsumerGroup, leaving: Collection[ConsumerMember], response: T
    ) -> Steps[Result[T]]:
        if not leaving:
            return Result(response)
        gone = {member.member_id for member in leaving}
        staying = {
            member_id: member
            for member_id, member in group.members.items()
            if member_id not in gone
        }
        if may_downgrade(group, staying, self._context.config()):
            records = downgrade(group, staying, self._context)
        else:
            records = yield from self._removal(group, leaving, staying.values())
        for member in leaving:
            self.sessions.end(group.group_id, member.member_id)

        def resume_sessions(_: KafkaError) -> None:
            for member in leaving:
                self.sessions.extend(group.group_id, member)

        return Result(response, records, on_failed=resume_sessions)

    def _removal(
        self,
        group: ConsumerGroup,
        leaving: Collection[ConsumerMember],
        staying: Collection[ConsumerMember],
    ) -> Steps[list[CoordinatorRecord]]:
        records: list[CoordinatorRecord] = []
        for member in leaving:
            records += member_tombstones(group.group_id, member.member_id)
            yield
        wanted = regexes_of(staying)
        records += (
            regex_tombstone(group.group_id, regex) for regex in group.regexes if regex not in wanted
        )
        names = group.topics_of_all(staying, group.regexes)
        hashed = yield from metadata_hash(names, self._context.topics)
        records.append(group_epoch_record(group.group_id, group.group_epoch + 1, hashed))
        return records

    def _expire(self, group: ConsumerGroup, member: ConsumerMember, reason: str) -> Planned[None]:
        logger.info("group %s: %s is put out because %s", group.group_id, member.member_id, reason)
        return self.remove(group, [member], None)
