from __future__ import annotations

from typing import Any

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from tests.support.consumer_groups import REBALANCE_MS, ConsumerCoordinator


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"member_id": ""}, id="no member id since version 1"),
        pytest.param({"member_id": " "}, id="blank member id"),
        pytest.param({"member_id": "", "member_epoch": 1, "version": 0}, id="no id at heartbeat"),
        pytest.param({"member_id": "", "member_epoch": -1, "version": 0}, id="no id at leave"),
        pytest.param({"instance_id": ""}, id="empty instance id"),
        pytest.param({"rack_id": " "}, id="blank rack"),
        pytest.param({"rebalance_timeout_ms": -1}, id="no rebalance time-out"),
        pytest.param({"owned": None}, id="does not say what it has"),
        pytest.param({"owned": {("t", 0)}}, id="has partitions"),
        pytest.param({"subscribed_topic_names": None}, id="no subscription"),
        pytest.param({"member_epoch": -2}, id="static leave without instance"),
        pytest.param({"member_epoch": -3}, id="no such epoch"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    coordinator = ConsumerCoordinator()
    request: dict[str, Any] = {
        "member_id": "a",
        "member_epoch": 0,
        "owned": set(),
        "rebalance_timeout_ms": REBALANCE_MS,
        "subscribed_topic_names": ["t"],
        **fields,
    }
    with pytest.raises(KafkaError) as raised:
        coordinator.heartbeat(request.pop("member_id"), request.pop("member_epoch"), **request)
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    assert raised.value.message
    assert not coordinator.log


def test_an_assignor_that_is_not_there_is_refused() -> None:
    coordinator = ConsumerCoordinator(settings={"group.consumer.assignors": "uniform"})
    join = coordinator.join
    assert coordinator.error(join, "a", "t", server_assignor="range") == (
        ErrorCode.UNSUPPORTED_ASSIGNOR
    )
    assert coordinator.error(join, "a", "t", server_assignor="uniform") == ErrorCode.NONE
