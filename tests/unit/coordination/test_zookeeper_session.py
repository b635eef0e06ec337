"""What becomes of kazoo's words. The rest needs a server: tests/contract/coordination."""

from __future__ import annotations

import pytest
from kazoo import exceptions

from ottla.coordination.store import (
    ConnectionLost,
    NoNode,
    SessionExpired,
    StoreError,
    StoreUnusable,
)
from ottla.coordination.zookeeper_session import store_error


@pytest.mark.parametrize(
    ("error", "kind", "path"),
    [
        (exceptions.NoNodeError(), NoNode, "/a"),
        (exceptions.ConnectionLoss(), ConnectionLost, ""),
        (exceptions.ConnectionClosedError(), ConnectionLost, ""),
        (exceptions.SessionExpiredError(), SessionExpired, ""),
        (exceptions.NoAuthError(), StoreUnusable, "/a"),
    ],
)
def test_errors(error: Exception, kind: type[StoreError], path: str) -> None:
    translated = store_error(error, "/a")
    assert type(translated) is kind
    assert translated.path == path
    assert "/a" in str(translated)
