from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from tests.support.consumer_groups import ConsumerCoordinator


def test_it_is_what_every_group_is() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    group = coordinator.group
    assert (group.type_name, group.protocol_type) == ("consumer", "consumer")
    assert not group.is_empty
    assert group.is_subscribed_to("t")
    assert not group.is_subscribed_to("u")
    group.check_offset_delete()


def test_offsets_expire_by_when_they_were_committed() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    assert coordinator.group.offset_expiry_base_ms(17) == 17
    coordinator.leave("a")
    assert coordinator.group.offset_expiry_base_ms(17) == 17


def test_what_nobody_reads_any_more_is_not_subscribed_to() -> None:
    coordinator = ConsumerCoordinator(topics={"t": 1, "u": 1, "v": 1})
    coordinator.join("a", "t")
    coordinator.join("b", subscribed_topic_regex="u|v")
    assert coordinator.group.subscribed_topics == {"t", "u", "v"}
    coordinator.leave("b")
    assert coordinator.group.subscribed_topics == {"t"}


def test_members_are_found_by_id_or_instance() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t", instance_id="i")
    group = coordinator.group
    assert group.checked_member("a", "i") is group.checked_member("a", None)
    for member_id, instance_id, code in (
        ("b", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", "j", ErrorCode.UNKNOWN_MEMBER_ID),
        ("b", "i", ErrorCode.FENCED_INSTANCE_ID),
    ):
        with pytest.raises(KafkaError) as raised:
            group.checked_member(member_id, instance_id)
        assert raised.value.code is code
