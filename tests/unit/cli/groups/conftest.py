"""What the tests of `ottla groups` share."""

from __future__ import annotations

import pytest

from ottla.cli.client import Cluster
from tests.unit.cli.groups.fake_admin import FakeAdmin


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    """A group that has committed in one of two partitions."""
    fake = FakeAdmin(
        committed={"billing": {("clicks", 0): 4}}, latest={("clicks", 0): 10, ("clicks", 1): 1000}
    )
    monkeypatch.setattr(Cluster, "admin", lambda _: fake)
    return fake
