from __future__ import annotations

import pytest

from ottla.config.client_metrics import CLIENT_METRICS_SETTINGS, validate_client_metrics
from ottla.kernel.errors import ErrorCode, KafkaError


def test_what_a_subscription_has() -> None:
    assert {name: one.default for name, one in CLIENT_METRICS_SETTINGS.items()} == {
        "interval.ms": 300_000,
        "match": (),
        "metrics": (),
    }


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"interval.ms": "100", "metrics": "*"},
        {"interval.ms": "3600000", "metrics": "org.apache.kafka.producer.,other"},
        {"match": "client_id = app-.*, client_software_version=11[.]1"},
        {"match": "", "metrics": ""},
    ],
)
def test_what_it_may_be(overrides: dict[str, str]) -> None:
    validate_client_metrics(overrides)


@pytest.mark.parametrize(
    ("overrides", "code"),
    [
        ({"interval": "100"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "99"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "3600001"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id="}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=a=b"}, ErrorCode.INVALID_CONFIG),
        ({"match": "shoe_size=44"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=["}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_it_may_not_be(overrides: dict[str, str], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_client_metrics(overrides)
    assert caught.value.code is code
