from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicId
from ottla.server.produce_rules import refusal, topic_name
from tests.support.simulated_broker import SimulatedBroker, with_broker


@pytest.mark.parametrize(
    ("name", "acks", "client_id", "code"),
    [
        ("t", -1, None, None),
        ("t", 0, "c", None),
        ("t", 1, "c", None),
        ("t", 2, "c", ErrorCode.INVALID_REQUIRED_ACKS),
        ("__consumer_offsets", 1, "c", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__consumer_offsets", 1, None, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__transaction_state", 5, "c", ErrorCode.INVALID_REQUIRED_ACKS),
        ("__consumer_offsets", 1, "__admin_client", None),
    ],
)
def test_who_may_write(name: str, acks: int, client_id: str | None, code: ErrorCode | None) -> None:
    refused = refusal(name, acks, client_id)
    assert (refused and refused.code) == code


def test_a_topic_is_found_by_name_or_by_id() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        replicas = broker.machine.broker.replicas
        nobody = TopicId(bytes(16))
        assert topic_name(replicas, "t", nobody) == "t"
        assert topic_name(replicas, "", topic_id) == "t"
        assert topic_name(replicas, "", nobody) == ""

    with_broker(test)
