from __future__ import annotations

import pytest

from ottla.client.versions import Versions, listed_versions, newest_common
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.api import ApiKey
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.produce import ProduceRequest


def test_what_a_broker_lists() -> None:
    listed = [ApiVersion(api_key=0, min_version=3, max_version=5)]
    assert listed_versions(ApiVersionsResponse(api_keys=listed)) == {0: range(3, 6)}


def test_the_newest_that_both_know() -> None:
    newest = ProduceRequest.VERSIONS[-1]
    assert newest_common(ApiKey.PRODUCE, {0: range(100)}) == newest
    assert newest_common(ApiKey.PRODUCE, {0: range(8)}) == 7
    assert newest_common(ApiKey.PRODUCE, {0: range(100)}, version_max=11) == 11


def test_a_version_that_is_not_stable_is_not_spoken() -> None:
    known: Versions = {ApiKey.INIT_PRODUCER_ID: InitProducerIdRequest.VERSIONS}
    assert newest_common(ApiKey.INIT_PRODUCER_ID, known) == 5


@pytest.mark.parametrize("known", [{}, {0: range(3)}], ids=["not listed", "too old"])
def test_nothing_in_common_is_an_error(known: dict[int, range]) -> None:
    with pytest.raises(KafkaError, match="does not speak PRODUCE") as raised:
        newest_common(ApiKey.PRODUCE, known)
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION
