"""A cluster put together from what it says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli.client import Cluster
from ottla.cli.cluster import read
from ottla.cli.cluster.read import described_cluster, software_text
from ottla.cli.cluster.software import Software
from ottla.cli.errors import Failure
from ottla.cli.log_dirs import Replica
from tests.unit.cli.groups.fake_admin import FakeAdmin, done

CLUSTER = Cluster("localhost:9092", {})


class FakeCluster(FakeAdmin):
    """Three brokers, of which 3 is down; broker 2 is the controller."""

    def __init__(self) -> None:
        super().__init__(committed={"billing": {}, "audit": {}})
        self.settings: dict[str, dict[str, Any]] = {"1": {}, "2": {}}

    def describe_cluster(self, **_: Any) -> Any:
        nodes = [
            SimpleNamespace(id=id, host=f"host-{id}", port=9092, rack="b" if id == 2 else None)
            for id in (2, 1)
        ]
        return done(SimpleNamespace(cluster_id="abc", controller=nodes[0], nodes=nodes))

    def list_topics(self, topic: str | None = None, **_: Any) -> Any:
        topics: dict[str, list[tuple[int, list[int], list[int]]]] = {
            "clicks": [(1, [2, 1], [1, 2]), (2, [2, 3], [2])],
            "__consumer_offsets": [(-1, [3], [])],
        }
        return SimpleNamespace(
            topics={
                name: SimpleNamespace(
                    partitions={
                        number: SimpleNamespace(leader=leader, replicas=replicas, isrs=isrs)
                        for number, (leader, replicas, isrs) in enumerate(partitions)
                    }
                )
                for name, partitions in topics.items()
            }
        )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()

    def described_configs(_: Any, entity_type: str, names: list[str]) -> Any:
        if entity_type == "broker":
            (name,) = names
            if name not in fake.settings:
                raise Failure("not allowed")
            return {name: fake.settings[name]}
        return {name: {"min.insync.replicas": {"value": "2"}} for name in names}

    replicas = [Replica(1, "clicks", 0, 100), Replica(2, "clicks", 0, 90), Replica(2, "x", 0, 5)]
    monkeypatch.setattr(read, "described_configs", described_configs)
    monkeypatch.setattr("ottla.cli.health.readable_configs", described_configs)
    monkeypatch.setattr(read, "replicas_on_disk", lambda *_: replicas)
    monkeypatch.setattr(read, "software_of", lambda *_: {1: Software("Ottla", "0.1.0")})
    return fake


def test_brokers_health_and_totals(fake: Any) -> None:
    fake.settings["1"] = {"ottla.counters": {"value": '{"elections": 3}'}}
    found = described_cluster(CLUSTER, fake)

    assert found["brokers"] == [
        {
            "id": 1,
            "host": "host-1",
            "port": 9092,
            "rack": None,
            "is_controller": False,
            "software": "Ottla",
            "version": "0.1.0",
            "leads": 1,
            "replicas": 1,
            "size_bytes": 100,
            "counters": {"elections": 3},
        },
        {
            "id": 2,
            "host": "host-2",
            "port": 9092,
            "rack": "b",
            "is_controller": True,
            "software": None,
            "version": None,
            "leads": 1,
            "replicas": 2,
            "size_bytes": 95,
            "counters": None,
        },
    ]
    del found["brokers"]
    assert found == {
        "cluster_id": "abc",
        "controller_id": 2,
        "missing_brokers": [3],
        "topics": 2,
        "internal_topics": 1,
        "partitions": 3,
        "groups": 2,
        "size_bytes": 195,
        "problems": {
            "offline": 1,
            "under-replicated": 2,
            "under-min-isr": 2,
            "not on preferred leader": 1,
        },
    }


def test_brokers_of_kraft_do_not_know_the_controller(fake: Any) -> None:
    fake.settings["1"] = {"process.roles": {"value": "broker"}}

    found = described_cluster(CLUSTER, fake)
    assert found["controller_id"] is None
    assert [broker["is_controller"] for broker in found["brokers"]] == [None, None]


def test_what_is_not_told_is_null(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Any) -> Any:
        raise Failure("could not list all groups")

    fake.settings.clear()
    monkeypatch.setattr(read, "replicas_on_disk", lambda *_: None)
    monkeypatch.setattr(read, "listed_groups", refused)

    found = described_cluster(CLUSTER, fake)
    assert (found["size_bytes"], found["groups"]) == (None, None)
    assert [broker["size_bytes"] for broker in found["brokers"]] == [None, None]


def test_a_cluster_that_is_being_upgraded_has_two_versions() -> None:
    brokers = [{"software": "Ottla", "version": version} for version in ("0.2.0", "0.1.0")]

    assert software_text([*brokers, brokers[0]]) == "Ottla 0.1.0, Ottla 0.2.0"
    assert software_text([{"software": None, "version": None}]) == "-"
