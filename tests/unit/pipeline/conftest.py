"""What tests of many modules need: a broker that is told its answers; for transforms, a Spark."""

import gc
from collections.abc import Iterator

import pytest

from ottla.pipeline import kept_imports
from tests.pipeline.conftest import spark
from tests.support.socket_broker import SocketBroker
from tests.support.socket_transactions import Transactions

__all__ = ["spark"]


@pytest.fixture
def broker() -> Iterator[SocketBroker]:
    with SocketBroker() as broker:
        yield broker


@pytest.fixture
def brokers_side(broker: SocketBroker) -> Transactions:
    return Transactions(broker)


@pytest.fixture(autouse=True)
def freezes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How often what is imported was to be kept for good: of this process nothing is."""
    found: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: found.append(1))
    yield found
    kept_imports._freeze.cache_clear()
