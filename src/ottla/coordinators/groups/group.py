"""What every group is, whichever protocol its members speak."""

from __future__ import annotations

from typing import Protocol


class Group(Protocol):
    group_id: str

    @property
    def state_name(self) -> str:
        """As ListGroups and DescribeGroups spell it: Empty, Stable, ..."""
        ...

    @property
    def type_name(self) -> str:
        """`classic` or `consumer`."""
        ...

    @property
    def protocol_type(self) -> str: ...

    @property
    def is_empty(self) -> bool:
        """Without members: only then do its offsets expire, and may it be deleted."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads it: then its offsets must not be deleted."""
        ...

    def offset_expiry_base_ms(self, commit_timestamp: int) -> int | None:
        """From when on `offsets.retention.minutes` counts for an offset that was committed then:
        when the group became empty, or the commit itself where no members are known. None while
        the offset must not expire, except by `is_subscribed_to`."""
        ...

    def check_offset_delete(self) -> None:
        """Raises KafkaError where offsets of the group cannot be deleted now."""
        ...
