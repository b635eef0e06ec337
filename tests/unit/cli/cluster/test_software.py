"""What brokers run, told from what they say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli.client import Cluster
from ottla.cli.cluster.software import UNKNOWN, Software, release_of, software_of
from ottla.wire.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from tests.support.socket_broker import HOST, SocketBroker


@pytest.mark.parametrize(
    ("level", "version"),
    [(7, "3.3"), (9, "3.5"), (21, "3.9"), (22, "4.0"), (25, "4.0"), (30, "4.3"), (31, "after 4.3")],
)
def test_releases_of_apache_kafka(level: int, version: str) -> None:
    assert release_of({"group.version": 1, "metadata.version": level}) == ("Apache Kafka", version)


def test_what_tells_nothing_is_not_guessed() -> None:
    assert release_of({"group.version": 1}) == UNKNOWN


def test_brokers_of_ottla_say_it_and_others_are_asked_for_their_features() -> None:
    with SocketBroker() as broker:
        plain = broker.answers[ApiVersionsRequest]

        def with_features(request: Any) -> ApiVersionsResponse:
            response = plain(request)
            assert isinstance(response, ApiVersionsResponse)
            response.supported_features = [
                SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30)
            ]
            return response

        broker.answers[ApiVersionsRequest] = with_features
        brokers = [SimpleNamespace(id=id, host=HOST, port=broker.port) for id in (1, 2)]
        configs = {"1": {"ottla.version": {"value": "0.1.0"}}, "2": {}}
        cluster = Cluster(f"{HOST}:{broker.port}", {})
        assert software_of(cluster, brokers, configs) == {
            1: Software("Ottla", "0.1.0"),
            2: Software("Apache Kafka", "4.3"),
        }
        with_tls = Cluster(cluster.bootstrap, {"security.protocol": "SSL"})
        assert software_of(with_tls, brokers, configs).keys() == {1}
