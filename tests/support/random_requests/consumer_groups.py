"""Random requests of members of a consumer group (KIP-848).

No one subscribes by an expression that is sound: Apache Kafka looks for its topics in the
background, some time later. All ask for the assignor `range`: `uniform` goes through topics in the
order of their ids, and through members in that of a hash map, so what it gives to whom is each
broker's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages import incremental_alter_configs as incremental
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.support.random_requests import committed_offsets
from tests.support.random_requests.committed_offsets import Groups, Identity
from tests.support.random_requests.stage import CLOSED, fitting
from tests.support.raw_group import wait_for_coordinator

GROUP = 32


@dataclass
class Member:
    id: str
    epoch: int = 0
    instance_id: str | None = None
    assigned: Mapping[str, list[int]] = field(default_factory=dict)


class ConsumerGroups(Groups):
    def prepare(self) -> None:
        self.topics = [self.create("a", 4), self.create("b", 3)]
        self.group = self.topic("group")
        self.members = [Member("m1"), Member("m2"), Member("m3", instance_id="i3")]
        for member in self.members:
            self.names[member.id] = member.id
        wait_for_coordinator(self.subject.ask, self.group)
        self._assign_at_once()

    def _assign_at_once(self) -> None:
        """Else a second passes between one assignment and the next."""
        change = incremental.AlterConfigsResource(
            resource_type=GROUP,
            resource_name=self.group,
            configs=[
                incremental.AlterableConfig(name="consumer.assignment.interval.ms", value="0")
            ],
        )
        request = incremental.IncrementalAlterConfigsRequest(resources=[change])
        assert self.subject.ask(request, 1).responses[0].error_code == 0
        self.settle()

    def committer(self) -> Identity:
        member = self.pick(*self.members)
        epoch = self.mostly(member.epoch, member.epoch - 1, member.epoch + 1, -1, share=0.8)
        nobody = Member(self.pick("", "nobody"), epoch=self.pick(-1, 0, 3))
        return self.mostly(Member(member.id, epoch, member.instance_id), nobody)

    def listed(self, assigned: Mapping[str, list[int]]) -> list[TopicPartitions]:
        return [
            TopicPartitions(topic_id=self.topic_id(topic), partitions=partitions)
            for topic, partitions in assigned.items()
            if partitions
        ]


def join(groups: ConsumerGroups) -> Any:
    missing = groups.topic("missing")
    return _beat(
        groups,
        groups.pick(*groups.members),
        0,
        topic_partitions=groups.mostly([], None, share=0.95),
        rebalance_timeout_ms=groups.mostly(60_000, -1, 0, share=0.95),
        subscribed_topic_names=groups.mostly(
            groups.some(groups.topics, 2), [missing], [missing, *groups.topics], None, share=0.9
        ),
        server_assignor=groups.mostly("range", "nosuch", share=0.97),
    )


def beat(groups: ConsumerGroups) -> Any:
    """Says what it owns, or that nothing has changed; now and then in the epoch before."""
    member = groups.pick(*groups.members)
    if member.epoch <= 0 and groups.chance(0.8):
        return join(groups)
    epoch = groups.mostly(member.epoch, member.epoch - 1, member.epoch + 1, -3, share=0.85)
    owned = groups.pick(None, member.assigned, member.assigned, {}, {groups.topics[0]: [0]})
    fields: dict[str, Any] = {}
    if groups.chance(0.25):
        fields["subscribed_topic_names"] = groups.some(groups.topics, 2)
    if groups.chance(0.2):
        fields["rebalance_timeout_ms"] = 60_000
    return _beat(
        groups,
        member,
        epoch,
        topic_partitions=None if owned is None else groups.listed(owned),
        **fields,
    )


def leave(groups: ConsumerGroups) -> Any:
    return _beat(groups, groups.pick(*groups.members), groups.mostly(-1, -2, share=0.7))


def _beat(groups: ConsumerGroups, member: Member, epoch: int, **fields: Any) -> Any:
    version = groups.version(ConsumerGroupHeartbeatRequest)
    if groups.chance(0.02):
        fields["subscribed_topic_regex"] = "["
    if groups.chance(0.03):
        fields["rack_id"] = "r"
    request = fitting(
        ConsumerGroupHeartbeatRequest,
        version,
        group_id=groups.mostly(groups.any_group(), "", share=0.98),
        member_id=member.id,
        member_epoch=epoch,
        # A member does not join under two of them: what becomes of its partitions then follows
        # from no rule.
        instance_id=groups.mostly(member.instance_id, "other", None, share=0.97)
        if epoch
        else member.instance_id,
        **fields,
    )
    answer = groups.ask(request, version)
    if answer is not CLOSED and answer.error_code == ErrorCode.NONE:
        member.epoch = max(0, answer.member_epoch)
        if epoch < 0:
            member.assigned = {}
        elif answer.assignment is not None:
            names = {groups.topic_id(topic): topic for topic in groups.topics}
            member.assigned = {
                names[one.topic_id]: one.partitions for one in answer.assignment.topic_partitions
            }
    return answer


STEPS: Mapping[Callable[..., Any], int] = {join: 8, beat: 24, leave: 3, **committed_offsets.STEPS}
