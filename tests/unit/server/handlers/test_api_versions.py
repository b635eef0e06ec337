from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.server.apis import ANSWERED
from ottla.wire.api import APIS, ApiKey
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.simulated_broker import SimulatedBroker, with_broker


@pytest.mark.parametrize("version", [0, 2, 3, 4])
def test_what_is_listed_is_what_is_answered(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
        response = await broker.call(request, ApiVersionsResponse, version)
        assert response.error_code == ErrorCode.NONE
        listed = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        assert set(listed) == set(ANSWERED)
        # librdkafka drops compression silently where Produce begins above v0 (KAFKA-18659).
        assert listed[ApiKey.PRODUCE] == (0, APIS[ApiKey.PRODUCE].versions.stop - 1)
        for key, (first, last) in listed.items():
            assert range(first, last + 1) == APIS[ApiKey(key)].advertised_versions

    with_broker(test)


@pytest.mark.parametrize(
    ("name", "version", "is_valid"),
    [
        ("apache-kafka-java", "4.3.0", True),
        ("a", "1", True),
        ("", "1.0", False),
        ("name", "", False),
        ("-name", "1.0", False),
        ("name", "1.0-", False),
        ("na me", "1.0", False),
        ("name\n", "1.0", False),
    ],
)
def test_software_must_have_a_name_that_logs_can_take(
    name: str, version: str, is_valid: bool
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        response = await broker.call(request, ApiVersionsResponse, 3)
        assert response.error_code == (ErrorCode.NONE if is_valid else ErrorCode.INVALID_REQUEST)
        # Before v3 nobody says it, so nobody can say it wrong.
        response = await broker.call(request, ApiVersionsResponse, 2)
        assert response.error_code == ErrorCode.NONE

    with_broker(test)


@pytest.mark.parametrize("version", [3, 4])
def test_features_are_told_as_far_as_a_client_can_bear(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        request = ApiVersionsRequest(client_software_name="me", client_software_version="1")
        answer = await broker.call(request, ApiVersionsResponse, version)
        assert answer.finalized_features_epoch >= 0, "Java takes no notice of features otherwise"
        in_force = {one.name: one.max_version_level for one in answer.finalized_features}
        assert in_force["transaction.version"] == 2
        supported = {
            one.name: (one.min_version, one.max_version) for one in answer.supported_features
        }
        # KAFKA-17011: older clients choke on a lowest version of 0.
        assert supported.get("transaction.version") == ((0, 2) if version >= 4 else None)

    with_broker(test)
