"""`meta.properties`: which broker of which cluster a log dir belongs to.

Ottla writes version 0, as Kafka does with ZooKeeper (`broker.id`, `cluster.id`). It also reads
version 1, Kafka's own with KRaft (`node.id`), and leaves an existing file as it is.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.kernel.disk import Disk
from ottla.storage.errors import BrokerStartRefused
from ottla.storage.file_names import META_PROPERTIES


class MetaProperties(NamedTuple):
    version: int
    broker_id: int | None
    cluster_id: str | None


def read_meta_properties(disk: Disk, folder_path: str) -> MetaProperties | None:
    """None when the folder is new."""
    path = f"{folder_path}/{META_PROPERTIES}"
    if not disk.exists(path):
        return None
    properties = {}
    for line in disk.read_file(path).decode("utf-8", "replace").splitlines():
        name, separator, value = line.strip().partition("=")
        if separator and not name.startswith(("#", "!")):
            properties[name.strip()] = value.strip()
    try:
        version = int(properties.get("version", "0"))
        broker_id = properties.get("broker.id" if version == 0 else "node.id")
        return MetaProperties(
            version,
            None if broker_id is None else int(broker_id),
            properties.get("cluster.id"),
        )
    except ValueError as error:
        raise BrokerStartRefused(f"{path} is malformed: {error}") from error


def claim_folder(disk: Disk, folder_path: str, *, broker_id: int, cluster_id: str) -> None:
    """Checks that the log dir is this broker's, or makes a new one so."""
    found = read_meta_properties(disk, folder_path)
    path = f"{folder_path}/{META_PROPERTIES}"
    if found is None:
        content = f"#\n#\nbroker.id={broker_id}\nversion=0\ncluster.id={cluster_id}\n"
        disk.replace_file(path, content.encode())
        return
    if found.cluster_id is not None and found.cluster_id != cluster_id:
        raise BrokerStartRefused(
            f"{folder_path} belongs to the cluster {found.cluster_id}, this broker to "
            f"{cluster_id}: choose another folder (--data-dir, log.dirs), or remove {path} if the "
            "data is to be taken over"
        )
    if found.broker_id is not None and found.broker_id != broker_id:
        raise BrokerStartRefused(
            f"{folder_path} belongs to broker {found.broker_id}, this is broker {broker_id}: "
            f"start it with --broker-id {found.broker_id} (broker.id), or choose another folder "
            "(--data-dir, log.dirs)"
        )
