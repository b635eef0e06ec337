"""What a member's request changes in its consumer group.

Three things, one after the other: the member itself, and with it perhaps the epoch of the group;
the target assignment, if it is behind the group; and what the member has of its target.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from ottla.config.broker import BrokerConfig
from ottla.coordinators.groups.consumer.assignors import ASSIGNORS, MemberSpec
from ottla.coordinators.groups.consumer.group import ConsumerGroup, regexes_of
from ottla.coordinators.groups.consumer.member import (
    NOTHING,
    Assignment,
    ConsumerMember,
    MemberState,
    OwnedPartitions,
)
from ottla.coordinators.groups.consumer.reconciliation import Reconciliation
from ottla.coordinators.groups.consumer.records import (
    current_record,
    group_epoch_record,
    member_record,
    partition_metadata_tombstone,
    regex_record,
    regex_tombstone,
    target_epoch_record,
    target_record,
)
from ottla.coordinators.groups.consumer.sessions import ConsumerSessions
from ottla.coordinators.groups.consumer.subscription import ResolvedRegex, metadata_hash
from ottla.coordinators.groups.context import GroupContext
from ottla.coordinators.record import CoordinatorRecord
from ottla.coordinators.regex import check_regex, matching
from ottla.kernel.errors import KafkaError
from ottla.kernel.ids import TopicId
from ottla.kernel.slices import Steps, sorted_in_steps

logger = logging.getLogger(__name__)

_NO_VERSION = 0
"""Of the metadata. Kafka, should it load the record, then resolves the expression anew."""


class ConsumerUpdate:
    """One request, while it is handled. The group may be one that is not there before the records
    are replayed."""

    def __init__(
        self,
        context: GroupContext,
        sessions: ConsumerSessions,
        group: ConsumerGroup,
        records: list[CoordinatorRecord],
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._group = group
        self._records = records
        self._regexes = group.regexes
        self._group_epoch = group.group_epoch

    def run(
        self,
        before: ConsumerMember,
        member: ConsumerMember,
        owned: Collection[OwnedPartitions] | None,
    ) -> Steps[ConsumerMember]:
        """Adds the records, and returns the member as it will be. Raises KafkaError."""
        names_changed = member.subscribed_topic_names != before.subscribed_topic_names
        regex_changed = member.subscribed_topic_regex != before.subscribed_topic_regex
        if member != before:
            names = yield from sorted_in_steps(member.subscribed_topic_names)
            self._records.append(member_record(self._group.group_id, member, names))
        has_new_matches = self._resolve_regexes(member, regex_changed)
        yield
        has_changed = names_changed or regex_changed
        yield from self._advance_group(member, has_changed or has_new_matches)
        target_epoch, target = yield from self._assign(member)
        return (yield from self._reconcile(member, target_epoch, target, owned, has_changed))

    def forget(self, _: KafkaError) -> None:
        """The records could not be written: what was seen of the topics is to be seen again."""
        self._group.soft_checked_at_epoch = None
        self._group.soft_changed_topics = None

    # -- regular expressions ----------------------------------------------------------------

    def _resolve_regexes(self, member: ConsumerMember, regex_changed: bool) -> bool:
        """Whether one stands for other topics now. All of a group are resolved together, so that
        they cause one rebalance."""
        group = self._group
        regex = member.subscribed_topic_regex
        is_new = bool(regex) and regex not in group.regexes
        if is_new:
            check_regex(regex)
        if not (is_new or regex_changed or group.regexes):
            return False
        is_full = group.soft_changed_topics is None or self._is_refresh_due()
        if not (is_new or regex_changed or is_full or group.soft_changed_topics):
            return False
        wanted = regexes_of(group.members_with(member).values())
        self._regexes = {regex: group.regexes[regex] for regex in group.regexes if regex in wanted}
        self._records += (
            regex_tombstone(group.group_id, regex) for regex in group.regexes.keys() - wanted
        )
        has_changed = False
        for regex in sorted(wanted):
            has_changed |= self._resolve(regex, is_full=is_full)
        group.soft_changed_topics = set()
        return has_changed

    def _is_refresh_due(self) -> bool:
        interval_ms = self._context.config().group_consumer_regex_refresh_interval_ms
        oldest_ms = min(
            (resolved.timestamp_ms for resolved in self._group.regexes.values()), default=0
        )
        return self._context.now_ms() > oldest_ms + interval_ms

    def _resolve(self, regex: str, *, is_full: bool) -> bool:
        before = self._regexes.get(regex)
        topics = self._context.topics
        if before is None or is_full:
            found = _matching(regex, topics.names())
        else:
            changed = self._group.soft_changed_topics or set()
            here = [name for name in changed if topics.by_name(name) is not None]
            found = (before.topics - changed) | _matching(regex, here)
        if before is not None and found == before.topics and not self._is_refresh_due():
            return False
        resolved = ResolvedRegex(found, _NO_VERSION, self._context.now_ms())
        self._regexes[regex] = resolved
        self._records.append(regex_record(self._group.group_id, regex, resolved))
        return before is None or found != before.topics

    # -- the group --------------------------------------------------------------------------

    def _advance_group(self, member: ConsumerMember, has_changed: bool) -> Steps[None]:
        group = self._group
        if not has_changed and group.is_metadata_checked():
            return
        members = group.members_with(member).values()
        names = group.topics_of_all(members, self._regexes)
        yield
        hashed = yield from metadata_hash(names, self._context.topics)
        if has_changed or hashed != group.metadata_hash:
            self._group_epoch += 1
            self._records.append(group_epoch_record(group.group_id, self._group_epoch, hashed))
            logger.info("group %s: epoch %d", group.group_id, self._group_epoch)
        if group.has_partition_metadata_record:
            self._records.append(partition_metadata_tombstone(group.group_id))
        group.soft_checked_at_epoch = self._group_epoch

    # -- the target assignment --------------------------------------------------------------

    def _assign(self, member: ConsumerMember) -> Steps[tuple[int, Assignment]]:
        group = self._group
        if self._group_epoch <= group.assignment_epoch or not self._may_assign():
            return group.assignment_epoch, group.target_of(member)
        members = group.members_with(member)
        counts: dict[TopicId, int] = {}
        specs: dict[str, MemberSpec] = {}
        for each in members.values():
            specs[each.member_id] = yield from self._spec(each, counts)
        name = preferred_assignor(members) or supported_assignors(self._context.config())[0]
        targets = yield from ASSIGNORS[name](specs, counts)
        for member_id, target in targets.items():
            if group.target.get(member_id) != target:
                self._records.append(target_record(group.group_id, member_id, target))
            yield
        self._records.append(
            target_epoch_record(group.group_id, self._group_epoch, self._context.now_ms())
        )
        logger.info(
            "group %s: assigned epoch %d to %d members by %s",
            group.group_id,
            self._group_epoch,
            len(members),
            name,
        )
        return self._group_epoch, targets.get(member.member_id, NOTHING)

    def _may_assign(self) -> bool:
        """When many members come at once, not each of them causes an assignment (KIP-1263)."""
        config = self._context.group_config(self._group.group_id)
        last_ms = self._group.assignment_timestamp_ms
        next_ms = last_ms + config.consumer_assignment_interval_ms
        return last_ms == 0 or not last_ms <= self._context.now_ms() < next_ms

    def _spec(self, member: ConsumerMember, counts: dict[TopicId, int]) -> Steps[MemberSpec]:
        topic_ids = yield from self._topic_ids(member, counts)
        return MemberSpec(member.instance_id, topic_ids, self._group.target_of(member))

    def _topic_ids(
        self, member: ConsumerMember, counts: dict[TopicId, int]
    ) -> Steps[frozenset[TopicId]]:
        """Of those that exist."""
        topic_ids: set[TopicId] = set()
        for name in self._group.topics_of(member, self._regexes):
            topic = self._context.topics.by_name(name)
            if topic is not None:
                topic_ids.add(topic.id)
                counts[topic.id] = topic.partition_count
            yield
        return frozenset(topic_ids)

    # -- what the member has ----------------------------------------------------------------

    def _reconcile(
        self,
        member: ConsumerMember,
        target_epoch: int,
        target: Assignment,
        owned: Collection[OwnedPartitions] | None,
        subscription_changed: bool,
    ) -> Steps[ConsumerMember]:
        if not subscription_changed and member.is_reconciled_to(target_epoch):
            return member
        step = Reconciliation(
            target_epoch=target_epoch,
            target=target,
            owned=owned,
            owner_of=self._group.owner_of,
            subscribed_topic_ids=(yield from self._topic_ids(member, {})),
            subscription_changed=subscription_changed,
        )
        after = step.next(member)
        yield
        if after == member:
            return member
        self._records.append(current_record(self._group.group_id, after))
        if after.state is not MemberState.UNREVOKED_PARTITIONS:
            self._sessions.end_revocation(self._group.group_id, after.member_id)
        elif not after.uses_classic_protocol:
            # Classic members have time-outs of their own, to join and to sync.
            self._sessions.await_revocation(self._group.group_id, after)
        return after


def supported_assignors(config: BrokerConfig) -> list[str]:
    """The default one first. Kafka's settings may also name classes, which Python cannot load."""
    return [name for name in config.group_consumer_assignors if name in ASSIGNORS] or ["uniform"]


def preferred_assignor(members: Mapping[str, ConsumerMember]) -> str | None:
    """The one that most members ask for; of equals, the first in the alphabet."""
    votes: dict[str, int] = {}
    for member in members.values():
        if member.server_assignor in ASSIGNORS:
            votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
    return min(votes, key=lambda name: (-votes[name], name), default=None)


def _matching(regex: str, names: Collection[str]) -> frozenset[str]:
    try:
        return matching(regex, names)
    except KafkaError as error:
        # It was checked when it came; so it is from Kafka, whose RE2 takes a little more.
        logger.error("an expression that cannot be resolved here matches nothing: %s", error)
        return frozenset()
