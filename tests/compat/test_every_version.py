"""Every API in every version that is listed: answered, on a connection that goes on."""

from __future__ import annotations

import pytest

from ottla.server.apis import ANSWERED
from ottla.wire.api import APIS, ApiKey
from tests.support.ottla_process import OttlaProcess
from tests.support.plain_requests import plain_request
from tests.support.raw_client import RawClient


@pytest.mark.parametrize("key", ANSWERED, ids=lambda key: key.name)
def test_every_version_is_answered(shared_broker: OttlaProcess, key: ApiKey) -> None:
    with RawClient(shared_broker.bootstrap) as client:
        for version in APIS[key].versions:
            if version in APIS[key].advertised_versions:
                client.ask(plain_request(key, version), version)


@pytest.mark.parametrize("key", ANSWERED, ids=lambda key: key.name)
def test_a_version_that_is_not_listed_ends_the_connection(
    shared_broker: OttlaProcess, key: ApiKey
) -> None:
    """Except for ApiVersions, which answers (test_like_kafka_admin.py)."""
    if key == ApiKey.API_VERSIONS:
        return
    beyond = APIS[key].advertised_versions[-1] + 1
    with RawClient(shared_broker.bootstrap) as client:
        header = key.to_bytes(2, "big") + beyond.to_bytes(2, "big") + bytes(4) + b"\xff\xff\0"
        client.socket.sendall(len(header).to_bytes(4, "big") + header)
        assert client.is_closed_by_broker()
    assert f"{key.name} v{beyond} is not supported" in shared_broker.log_text()
