"""Random requests about the offsets of a group, and about groups: the same for both protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from tests.support.random_requests.stage import CLOSED, Stage, fitting
from tests.support.raw_group import fetch_request


class Identity(Protocol):
    """Who commits: a member of either protocol, or nobody."""

    id: str
    epoch: int
    instance_id: str | None


class Groups(Stage):
    """A group and two topics that it reads."""

    topics: list[str]
    group: str

    def committer(self) -> Identity:
        raise NotImplementedError

    def any_group(self) -> str:
        """Never the group without a name: it is everybody's."""
        return self.mostly(self.group, self.topic("no-group"), share=0.94)

    def any_topic(self) -> str:
        return self.mostly(self.pick(*self.topics), self.topic("missing"), share=0.93)


def commit(groups: Groups) -> Any:
    version = groups.version(OffsetCommitRequest)
    who = groups.committer()
    topics = [
        fitting(
            OffsetCommitRequestTopic,
            version,
            name=topic,
            topic_id=groups.topic_id(topic),
            partitions=[
                fitting(
                    OffsetCommitRequestPartition,
                    version,
                    partition_index=partition,
                    committed_offset=groups.rng.randrange(100),
                    committed_leader_epoch=groups.pick(-1, 0, 3),
                    committed_metadata=groups.mostly("m", None, "", "x" * 5000),
                )
                for partition in groups.some((0, 1, 2, -1), 2)
            ],
        )
        for topic in dict.fromkeys((groups.any_topic(), groups.any_topic()))
    ]
    request = fitting(
        OffsetCommitRequest,
        version,
        group_id=groups.any_group(),
        generation_id_or_member_epoch=who.epoch,
        member_id=who.id,
        group_instance_id=who.instance_id,
        topics=topics,
    )
    return groups.ask(request, version)


def fetch_offsets(groups: Groups) -> Any:
    version = groups.version(OffsetFetchRequest)
    wanted = None
    if version < 2 or groups.chance(0.7):
        wanted = {topic: groups.some((0, 1, 2, 9), 3) for topic in {groups.any_topic(): None}}
    request = fetch_request(version, groups.any_group(), wanted, topic_ids=groups.topic_ids)
    if version >= 9 and groups.chance(0.4):
        who = groups.committer()
        request.groups[0].member_id, request.groups[0].member_epoch = who.id, who.epoch
    if version >= 10 and wanted is not None:
        for topic, name in zip(request.groups[0].topics or (), wanted, strict=True):
            topic.topic_id = groups.topic_id(name)
    return groups.ask(request, version)


def delete_offsets(groups: Groups) -> Any:
    topics = [
        OffsetDeleteRequestTopic(
            name=topic,
            partitions=[
                OffsetDeleteRequestPartition(partition_index=index)
                for index in groups.some((0, 1, 2), 2)
            ],
        )
        for topic in {groups.any_topic(): None}
    ]
    return groups.ask(OffsetDeleteRequest(group_id=groups.any_group(), topics=topics), 0)


def describe_groups(groups: Groups) -> Any:
    version = groups.version(DescribeGroupsRequest)
    request = fitting(
        DescribeGroupsRequest,
        version,
        groups=[groups.any_group()],
        include_authorized_operations=groups.chance(0.2),
    )
    answer = groups.ask(request, version)
    for group in answer.groups:
        group.members.sort(key=lambda one: groups.names.get(one.member_id, ""))
    return answer


def describe_consumer_groups(groups: Groups) -> Any:
    version = groups.version(ConsumerGroupDescribeRequest)
    request = ConsumerGroupDescribeRequest(
        group_ids=[groups.any_group()], include_authorized_operations=groups.chance(0.2)
    )
    answer = groups.ask(request, version)
    for group in answer.groups:
        group.members.sort(key=lambda one: groups.names.get(one.member_id, ""))
    return answer


def list_groups(groups: Groups) -> Any:
    version = groups.version(ListGroupsRequest)
    request = fitting(
        ListGroupsRequest,
        version,
        states_filter=groups.pick([], ["Stable", "empty"], ["NoSuch"], ["Assigning"]),
        types_filter=groups.pick([], ["classic"], ["Consumer"], ["nosuch"]),
    )
    answer = groups.ask(request, version)
    if answer is not CLOSED:
        answer.groups = sorted(
            (one for one in answer.groups if groups.prefix in one.group_id), key=repr
        )
    return answer


def delete_groups(groups: Groups) -> Any:
    request = DeleteGroupsRequest(groups_names=[groups.any_group()])
    return groups.ask(request, groups.version(DeleteGroupsRequest))


STEPS: Mapping[Callable[..., Any], int] = {
    commit: 5,
    fetch_offsets: 5,
    delete_offsets: 1,
    describe_groups: 3,
    describe_consumer_groups: 2,
    list_groups: 1,
    delete_groups: 1,
}
