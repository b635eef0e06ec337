"""What the tests of `ottla reassign` share."""

from __future__ import annotations

import pytest

from ottla.cli.client import Cluster
from tests.unit.cli.reassign.fake_cluster import FakeCluster

_PATCHED = {
    "connected": ("plan", "execute", "status", "cancel"),
    "list_reassignments": ("read", "execute", "cancel"),
    "alter_reassignments": ("execute", "cancel"),
    "replicas_on_disk": ("plan", "execute", "status"),
}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    monkeypatch.setattr(Cluster, "admin", lambda _: fake)
    monkeypatch.setattr("ottla.cli.reassign.execute._PERIOD_S", 0.0)
    for name, modules in _PATCHED.items():
        for module in modules:
            monkeypatch.setattr(f"ottla.cli.reassign.{module}.{name}", getattr(fake, name))
    return fake
