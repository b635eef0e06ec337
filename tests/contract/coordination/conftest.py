from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.coordination.backends import (
    Backend,
    MemoryBackend,
    RemoteBackend,
    SqliteBackend,
    ZooKeeperBackend,
)
from tests.contract.coordination.peers import Peers


@pytest.fixture
def peers() -> Iterator[Peers]:
    peers = Peers()
    yield peers
    peers.end()


@pytest.fixture(params=["memory", "remote", "sqlite", "zookeeper"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    if request.param == "memory":
        return MemoryBackend()
    if request.param == "remote":
        return RemoteBackend()
    if request.param == "sqlite":
        return SqliteBackend(tmp_path)
    return ZooKeeperBackend(request.getfixturevalue("zookeeper").address)
