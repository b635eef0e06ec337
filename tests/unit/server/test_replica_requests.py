from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.server.context import RequestContext
from ottla.server.replica_requests import check_replica_listener


def check(replica_id: int, listener_name: str) -> None:
    services: Any = SimpleNamespace(config=SimpleNamespace(inter_broker_listener_name="BROKERS"))
    context = RequestContext(1, None, listener_name, "host")
    check_replica_listener(services, replica_id, context)


@pytest.mark.parametrize(
    ("replica_id", "listener_name"), [(0, "BROKERS"), (-1, "BROKERS"), (-1, "CLIENTS"), (-2, "X")]
)
def test_consumers_ask_anywhere_and_replicas_on_the_listener_of_brokers(
    replica_id: int, listener_name: str
) -> None:
    check(replica_id, listener_name)


@pytest.mark.parametrize("replica_id", [0, 7])
def test_a_replica_elsewhere_is_refused(replica_id: int) -> None:
    with pytest.raises(KafkaError, match="BROKERS") as raised:
        check(replica_id, "CLIENTS")
    assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
