"""Who may come into a consumer group, and as whom. The same for both protocols."""

from __future__ import annotations

import logging
import random
from dataclasses import replace

from ottla.config.broker import BrokerConfig
from ottla.coordinators.groups.consumer.group import ConsumerGroup
from ottla.coordinators.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerMember,
)
from ottla.coordinators.groups.consumer.records import replacing_records
from ottla.coordinators.record import CoordinatorRecord
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import new_topic_id, topic_id_text

logger = logging.getLogger(__name__)


def new_member_id(rng: random.Random) -> str:
    """As Kafka makes them: a UUID in the letters in which topic ids are written."""
    return topic_id_text(new_topic_id(rng))


def check_has_room(group: ConsumerGroup, member_id: str, config: BrokerConfig) -> None:
    limit = config.group_consumer_max_size
    if len(group.members) >= limit and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"group {group.group_id!r} has {limit} members, as many as it may have",
        )


def joining_dynamic_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """One who was put out may come again under its id before that is known here."""
    return group.members.get(member_id) or ConsumerMember.new(member_id)


def joining_static_member(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str,
    records: list[CoordinatorRecord],
    *,
    is_classic: bool,
) -> ConsumerMember:
    """Takes the place of the one that had the instance id, with all that it had; adds the records
    of that. Raises KafkaError if that one has not said that it goes."""
    existing = group.static_member(instance_id)
    if existing is None:
        return joining_dynamic_member(group, member_id)
    is_released = existing.member_epoch == LEAVE_STATIC_EPOCH
    if not (is_released or is_classic or existing.uses_classic_protocol):
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the "
            f"group because the instance id is owned by a member. ({existing.member_id}, which "
            "has not left)",
        )
    member = replace(
        existing,
        member_id=member_id,
        member_epoch=JOIN_EPOCH,
        previous_member_epoch=JOIN_EPOCH,
    )
    records += replacing_records(group, existing, member)
    logger.info(
        "group %s: %s takes the place of %s, instance %s",
        group.group_id,
        member_id,
        existing.member_id,
        instance_id,
    )
    return member
