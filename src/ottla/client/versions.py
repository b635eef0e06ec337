"""Which version of an API to speak: the newest that both sides know."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.wire.api import APIS, ApiKey
from ottla.wire.messages.api_versions import ApiVersionsResponse

Versions = dict[int, range]
"""What a broker speaks, by API key."""


def listed_versions(response: ApiVersionsResponse) -> Versions:
    return {
        listed.api_key: range(listed.min_version, listed.max_version + 1)
        for listed in response.api_keys
    }


def newest_common(api_key: int, known: Versions, version_max: int | None = None) -> int:
    """Not above `version_max`, where a newer one means something else. Raises KafkaError."""
    key = ApiKey(api_key)
    theirs = known.get(key, range(0))
    common = [
        version
        for version in APIS[key].advertised_versions
        if version in theirs
        and version in APIS[key].versions
        and (version_max is None or version <= version_max)
    ]
    if not common:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the broker does not speak {key.name}{_up_to(version_max)}",
        )
    return common[-1]


def _up_to(version_max: int | None) -> str:
    return "" if version_max is None else f" up to version {version_max}"
