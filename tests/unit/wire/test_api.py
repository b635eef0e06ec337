from __future__ import annotations

import pytest

from ottla.wire.api import APIS, FIRST_FLEXIBLE_VERSION, Api, ApiKey
from ottla.wire.source import snake_case


def test_every_key_has_its_messages() -> None:
    assert set(APIS) == set(ApiKey)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.name)
def test_request_and_response_belong_together(api: Api) -> None:
    name = api.request.__name__.removesuffix("Request")

    assert api.response.__name__ == f"{name}Response"
    assert snake_case(name).upper() == api.key.name
    assert api.request.API_KEY == api.response.API_KEY == api.key
    assert api.request.VERSIONS == api.response.VERSIONS == api.versions
    assert api.request.FLEXIBLE_VERSIONS == api.response.FLEXIBLE_VERSIONS
    flexible = api.request.FLEXIBLE_VERSIONS
    assert FIRST_FLEXIBLE_VERSION.get(api.key) == (flexible[0] if flexible else None)


def test_what_is_advertised_is_what_works_but_for_two() -> None:
    otherwise = {
        api.key: (api.advertised_versions[0], api.advertised_versions[-1])
        for api in APIS.values()
        if api.advertised_versions != api.versions
    }

    assert otherwise == {ApiKey.PRODUCE: (0, 13), ApiKey.INIT_PRODUCER_ID: (0, 5)}
