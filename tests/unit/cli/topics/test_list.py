"""`ottla topics list`: what it prints of what it was told. tests/compat tries it on brokers."""

from __future__ import annotations

import json
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli.client import Cluster
from ottla.cli.log_dirs import Replica
from ottla.cli.main import main
from ottla.cli.topics import list as topics_list
from ottla.cli.topics.list import _sum_of
from tests.unit.cli.groups.fake_admin import FakeAdmin


def test_a_sum_is_unknown_when_a_part_of_it_is() -> None:
    assert _sum_of([1, 2]) == 3
    assert _sum_of([1, None]) is None
    assert _sum_of([]) == 0


def test_a_server_that_is_no_broker_is_told_from_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ottla.cli.topics.list.METADATA_TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:  # it accepts, and says nothing
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert main(["topics", "list", "--bootstrap", address]) == 1

    err = capsys.readouterr().err
    assert err.startswith(f"ottla: {address} accepts connections but does not answer as a Kafka")
    assert err.count("\n") == 1


class FakeTopics(FakeAdmin):
    """The topics that it has offsets of, on one broker."""

    def list_topics(self, topic: str | None = None, **_: Any) -> Any:
        topics: dict[str, Any] = {}
        for name, number in self.latest:
            partitions = topics.setdefault(name, SimpleNamespace(partitions={})).partitions
            partitions[number] = SimpleNamespace(leader=1, replicas=[1], isrs=[1])
        return SimpleNamespace(topics=topics, brokers={})


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeTopics:
    fake = FakeTopics(latest={("clicks", 0): 10, ("clicks", 1): 7, ("__consumer_offsets", 0): 1})
    fake.earliest["clicks", 0] = 4
    monkeypatch.setattr(Cluster, "admin", lambda _: fake)
    replicas = [Replica(1, "clicks", 0, 1000), Replica(1, "clicks", 1, 500)]
    monkeypatch.setattr(topics_list, "replicas_on_disk", lambda *_: replicas)
    return fake


def test_topics_with_what_is_in_them(fake: FakeTopics, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "list"]) == 0
    assert capsys.readouterr().out == (
        "TOPIC   PARTITIONS  REPLICAS  RECORDS    SIZE  HEALTH\n"
        "clicks           2         1       13  1.5 kB  ok\n"
    )
    assert main(["topics", "list", "--internal", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1] == {
        "name": "clicks",
        "partitions": 2,
        "replication_factor": 1,
        "records": 13,
        "size_bytes": 1500,
        "problems": {},
        "internal": False,
    }
    assert main(["topics", "list", "--names"]) == 0
    assert capsys.readouterr().out == "clicks\n"


def test_sizes_that_are_not_known(
    fake: FakeTopics, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(topics_list, "replicas_on_disk", lambda *_: None)

    assert main(["topics", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["clicks", "2", "1", "13", "-", "ok"]


def test_a_cluster_without_topics(
    fake: FakeTopics, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.latest.clear()

    assert main(["topics", "list", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"
    assert main(["topics", "list"]) == 0
    assert capsys.readouterr().out == ""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["topics", "list"]) == 0
    assert main(["topics", "describe"]) == 0
    sentence = "No topics yet. Create one: ottla topics create NAME\n"
    assert capsys.readouterr().out == 2 * sentence
