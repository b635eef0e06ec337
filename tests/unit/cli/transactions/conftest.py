"""What the tests of `ottla transactions` share."""

from __future__ import annotations

import pytest

from tests.unit.cli.transactions.fake_cluster import NOW_MS, FakeCluster


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    for module in ("list", "describe", "find_hanging", "abort"):
        monkeypatch.setattr(f"ottla.cli.transactions.{module}.run", fake.run_for)
        if module != "list":
            monkeypatch.setattr(f"ottla.cli.transactions.{module}.now_ms", lambda: NOW_MS)
    return fake
