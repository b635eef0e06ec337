"""A cluster as it is now: brokers, health and totals, put together from what it says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka.admin import AdminClient

from ottla.cli.client import METADATA_TIMEOUT_S, REQUEST_TIMEOUT_S, Cluster
from ottla.cli.cluster.software import OTTLA_VERSION, UNKNOWN, software_of
from ottla.cli.configs import Entry, described_configs
from ottla.cli.errors import Failure
from ottla.cli.groups.read import listed_groups
from ottla.cli.health import WORST_FIRST, all_problems, problems_by_topic
from ottla.cli.log_dirs import replicas_on_disk

Json = dict[str, Any]

OTTLA_COUNTERS = "ottla.counters"
"""A setting of brokers of Ottla that cannot be set."""


def described_cluster(cluster: Cluster, admin: AdminClient) -> Json:
    """What cannot be asked, or is not told, is null."""
    described = admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S).result()
    metadata = admin.list_topics(timeout=METADATA_TIMEOUT_S)
    nodes = sorted(described.nodes, key=lambda node: node.id)
    partitions = [part for topic in metadata.topics.values() for part in topic.partitions.values()]
    configs = _broker_configs(admin, [str(node.id) for node in nodes])
    software = software_of(cluster, nodes, configs)
    controller_id = None
    if described.controller is not None and not _is_kraft(configs):
        controller_id = described.controller.id
    replicas = replicas_on_disk(cluster, nodes)
    sizes: Counter[int] = Counter()
    for replica in replicas or ():
        sizes[replica.broker_id] += replica.size_bytes
    leads = Counter(part.leader for part in partitions)
    holds = Counter(replica for part in partitions for replica in part.replicas)
    return {
        "cluster_id": described.cluster_id,
        "controller_id": controller_id,
        "brokers": [
            {
                "id": node.id,
                "host": node.host,
                "port": node.port,
                "rack": node.rack,
                "is_controller": None if controller_id is None else node.id == controller_id,
                "software": software.get(node.id, UNKNOWN).name,
                "version": software.get(node.id, UNKNOWN).version,
                "leads": leads[node.id],
                "replicas": holds[node.id],
                "size_bytes": None if replicas is None else sizes[node.id],
                "counters": counters_of(configs.get(str(node.id), {})),
            }
            for node in nodes
        ],
        "missing_brokers": sorted(holds.keys() - {node.id for node in nodes}),
        "topics": len(metadata.topics),
        "internal_topics": sum(name.startswith("__") for name in metadata.topics),
        "partitions": len(partitions),
        "groups": _count_of_groups(admin),
        "size_bytes": None if replicas is None else sizes.total(),
        "problems": _problems(all_problems(problems_by_topic(admin, metadata.topics).values())),
    }


def _broker_configs(admin: AdminClient, ids: list[str]) -> dict[str, dict[str, Entry]]:
    found: dict[str, dict[str, Entry]] = {}
    for id in ids:  # Each is asked for its own, and librdkafka takes one a call.
        try:
            found |= described_configs(admin, "broker", [id])
        except Failure:
            continue  # not allowed to, or gone meanwhile: then less is known
    return found


def _is_kraft(configs: Mapping[str, Mapping[str, Entry]]) -> bool:
    """Brokers of KRaft name any broker as the controller, whoever leads the quorum."""
    return any(
        bool(of_one.get("process.roles", {}).get("value"))
        for of_one in configs.values()
        if OTTLA_VERSION not in of_one
    )


def _count_of_groups(admin: AdminClient) -> int | None:
    try:
        return len(listed_groups(admin))
    except Failure:
        return None


def _problems(counts: Mapping[str, int]) -> dict[str, int]:
    """How many partitions have which."""
    return {name: counts.get(name, 0) for name in WORST_FIRST}


def counters_of(configs: Mapping[str, Entry]) -> Json | None:
    """What a broker of Ottla counts. It tells that as a setting, since Kafka has no request for
    it. None of other brokers."""
    entry = configs.get(OTTLA_COUNTERS)
    if entry is None or not entry["value"]:
        return None
    found = json.loads(entry["value"])
    return found if isinstance(found, dict) else None


def software_text(brokers: Iterable[Json]) -> str:
    """All that there are: more than one while a cluster is upgraded."""
    texts = {
        f"{broker['software']} {broker['version'] or ''}".rstrip()
        for broker in brokers
        if broker["software"] is not None
    }
    return ", ".join(sorted(texts)) or "-"
