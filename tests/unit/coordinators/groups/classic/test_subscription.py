from __future__ import annotations

import pytest

from ottla.coordinators.groups.classic.subscription import subscribed_topics_of
from ottla.wire.codec import MalformedMessage


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_topics_stand_at_the_beginning_in_every_version(version: int) -> None:
    metadata = version.to_bytes(2, "big") + b"\0\0\0\2\0\1a\0\2bc" + b"what later versions add"

    assert subscribed_topics_of(metadata) == {"a", "bc"}


@pytest.mark.parametrize(
    "metadata",
    [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1\0\5abc"],
    ids=["empty", "half a version", "negative version", "too many", "too short"],
)
def test_bytes_that_are_no_subscription_are_refused(metadata: bytes) -> None:
    with pytest.raises(MalformedMessage):
        subscribed_topics_of(metadata)
