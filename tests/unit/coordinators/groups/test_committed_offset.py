from __future__ import annotations

import pytest

from ottla.coordinators.groups.committed_offset import CommittedOffset
from ottla.coordinators.groups.records import OffsetCommitValue
from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.kernel.transport import Part
from ottla.wire.codec import decoder, encoder


@pytest.mark.parametrize(
    ("version", "kept"),
    [
        (0, CommittedOffset(5, metadata="m", commit_timestamp=7)),
        (1, CommittedOffset(5, metadata="m", commit_timestamp=7, expire_timestamp=9)),
        (3, CommittedOffset(5, 3, "m", 7)),
        (4, CommittedOffset(5, 3, "m", 7, topic_id=TopicId(b"i" * 16))),
    ],
)
def test_it_has_what_its_record_has(version: int, kept: CommittedOffset) -> None:
    value = OffsetCommitValue(
        offset=5,
        leader_epoch=3,
        metadata="m",
        commit_timestamp=7,
        expire_timestamp=9 if version == 1 else -1,
        topic_id=TopicId(b"i" * 16) if version >= 4 else NO_TOPIC_ID,
    )
    parts: list[Part] = []
    encoder(OffsetCommitValue, version)(value, parts)
    content = b"".join(part for part in parts if isinstance(part, bytes))
    decoded, _ = decoder(OffsetCommitValue, version)(content, 0)
    assert CommittedOffset.from_record(decoded) == kept
