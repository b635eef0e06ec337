"""Every message in every version, and by whose implementation ours is checked."""

from __future__ import annotations

from ottla.wire.api import APIS, ApiKey
from ottla.wire.schema import Message, parse_versions

MessageCase = tuple[type[Message], int]

ALL_CASES: list[MessageCase] = [
    (cls, version)
    for api in APIS.values()
    for cls in (api.request, api.response)
    for version in cls.VERSIONS
]
"""Every API, direction and version."""

_GONE_WITH_KAFKA_4 = {
    ApiKey.LEADER_AND_ISR: parse_versions("0+"),
    ApiKey.STOP_REPLICA: parse_versions("0+"),
    ApiKey.UPDATE_METADATA: parse_versions("0+"),
    ApiKey.CONTROLLED_SHUTDOWN: parse_versions("0+"),
    ApiKey.ALTER_PARTITION: parse_versions("0-1"),
}

KAFKA_3_CASES = [
    (cls, version)
    for cls, version in ALL_CASES
    if version in _GONE_WITH_KAFKA_4.get(ApiKey(cls.API_KEY), ())
]
"""What kio does not have; Kafka 3.9's own classes do."""

_CAME_AFTER_KAFKA_4_3 = {ApiKey.GET_REPLICA_LOG_INFO}
"""What nobody has classes of yet: the unit tests write their bytes out."""

KIO_CASES = [
    case
    for case in ALL_CASES
    if case not in KAFKA_3_CASES and case[0].API_KEY not in _CAME_AFTER_KAFKA_4_3
]


def case_id(value: object) -> str:
    return value.__name__ if isinstance(value, type) else f"v{value}"
