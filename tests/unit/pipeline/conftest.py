"""What tests of many modules need: a broker that is told its answers; for transforms, a Spark."""

from collections.abc import Iterator

import pytest

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
