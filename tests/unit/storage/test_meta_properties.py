from __future__ import annotations

import random

import pytest

from ottla.storage.errors import BrokerStartRefused
from ottla.storage.meta_properties import claim_folder, read_meta_properties
from ottla.testing.disk import SimulatedDisk

PATH = "/d/meta.properties"


def _disk(content: str | None = None) -> SimulatedDisk:
    disk = SimulatedDisk(random.Random(0))
    disk.make_folders("/d")
    if content is not None:
        disk.replace_file(PATH, content.encode())
    return disk


def test_a_new_folder_becomes_this_brokers() -> None:
    disk = _disk()
    assert read_meta_properties(disk, "/d") is None
    claim_folder(disk, "/d", broker_id=3, cluster_id="abc")
    assert read_meta_properties(disk, "/d") == (0, 3, "abc")
    claim_folder(disk, "/d", broker_id=3, cluster_id="abc")


KRAFT = "#\n#Sun Nov 15\nnode.id=3\nversion=1\ncluster.id=abc\ndirectory.id=xyz\n"


@pytest.mark.parametrize(
    "content",
    ["broker.id=3\nversion=0\ncluster.id=abc\n", KRAFT, "broker.id = 3\n", "cluster.id=abc\n"],
)
def test_an_existing_file_is_kept(content: str) -> None:
    disk = _disk(content)
    claim_folder(disk, "/d", broker_id=3, cluster_id="abc")
    assert disk.read_file(PATH).decode() == content


def test_another_broker_or_cluster_is_refused_by_name() -> None:
    with pytest.raises(BrokerStartRefused, match=r"belongs to broker 3.*this is broker 4"):
        claim_folder(_disk(KRAFT), "/d", broker_id=4, cluster_id="abc")
    with pytest.raises(BrokerStartRefused, match=r"belongs to the cluster abc"):
        claim_folder(_disk(KRAFT), "/d", broker_id=3, cluster_id="other")


def test_nonsense_is_refused() -> None:
    with pytest.raises(BrokerStartRefused, match="malformed"):
        read_meta_properties(_disk("version=x\n"), "/d")
