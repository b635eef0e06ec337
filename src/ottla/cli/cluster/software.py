"""What brokers run. Kafka's protocol has no request for that, so it is told from what it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.cli.client import REQUEST_TIMEOUT_S, Cluster, addresses_of
from ottla.cli.configs import Entry

OTTLA_VERSION = "ottla.version"
"""A setting of brokers of Ottla that cannot be set."""

_RELEASES = {
    7: "3.3",
    8: "3.4",
    11: "3.5",
    14: "3.6",
    19: "3.7",
    20: "3.8",
    21: "3.9",
    25: "4.0",
    27: "4.1",
    29: "4.2",
    30: "4.3",
}
"""Of Apache Kafka, by the highest `metadata.version` that each supports. Bug fix releases do not
differ in it."""


class Software(NamedTuple):
    name: str | None
    version: str | None
    """The release, as far as it can be told."""


UNKNOWN = Software(None, None)


def software_of(
    cluster: Cluster, brokers: Iterable[Any], configs: Mapping[str, Mapping[str, Entry]]
) -> dict[int, Software]:
    """Of each broker. `configs` are the settings of brokers by their ids."""
    found: dict[int, Software] = {}
    others = []
    for broker in brokers:
        version = configs.get(str(broker.id), {}).get(OTTLA_VERSION)
        if version is not None:
            found[broker.id] = Software("Ottla", version["value"])
        else:
            others.append(broker)
    return found | {
        broker_id: release_of(features)
        for broker_id, features in _supported_features(cluster, others).items()
    }


def release_of(features: Mapping[str, int]) -> Software:
    """From the highest level of each feature that a broker supports. What has no metadata.version
    is Kafka before 3.3, or something else that speaks as Kafka does.

    >>> release_of({"metadata.version": 30})
    Software(name='Apache Kafka', version='4.3')
    """
    level = features.get("metadata.version")
    if level is None:
        return UNKNOWN
    for highest, release in _RELEASES.items():
        if level <= highest:
            return Software("Apache Kafka", release)
    return Software("Apache Kafka", f"after {list(_RELEASES.values())[-1]}")


def _supported_features(cluster: Cluster, brokers: list[Any]) -> dict[int, dict[str, int]]:
    """By broker. Nothing of one that could not be asked: TLS and SASL are not spoken here."""
    protocol = cluster.properties.get("security.protocol", "plaintext")
    if not brokers or protocol.lower() != "plaintext":
        return {}
    # With codecs of ours, which brokers of Ottla are known without.
    from ottla.client.blocking import ClientError
    from ottla.client.blocking_cluster import BlockingCluster
    from ottla.client.cluster import Node
    from ottla.kernel.errors import KafkaError
    from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

    request = ApiVersionsRequest(client_software_name="ottla", client_software_version="0")
    found: dict[int, dict[str, int]] = {}
    with BlockingCluster(
        addresses_of(cluster.effective_bootstrap),
        client_id="ottla-cli",
        request_timeout_s=REQUEST_TIMEOUT_S,
    ) as client:
        for broker in brokers:
            node = Node(broker.id, broker.host, broker.port)
            try:
                answer = client.ask(request, ApiVersionsResponse, node=node)
            except (ClientError, KafkaError):
                continue
            found[broker.id] = {one.name: one.max_version for one in answer.supported_features}
    return found
