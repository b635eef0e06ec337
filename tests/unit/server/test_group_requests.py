from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.server.context import RequestContext
from ottla.server.group_requests import check_group_id, client_of


def test_who_asks() -> None:
    client = client_of(RequestContext(7, "app", "PLAINTEXT", "10.0.0.1"))
    assert (client.id, client.host, client.api_version) == ("app", "/10.0.0.1", 7)
    nameless = client_of(RequestContext(7, None, "PLAINTEXT", "10.0.0.1"))
    assert nameless.id == ""


def test_a_group_id_is_not_empty() -> None:
    check_group_id("g")
    with pytest.raises(KafkaError) as raised:
        check_group_id("")
    assert raised.value.code is ErrorCode.INVALID_GROUP_ID
