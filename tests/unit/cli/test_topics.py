"""`ottla topics`: what it prints of what it was told. tests/compat tries it on brokers."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

from ottla.cli.main import main
from ottla.cli.topics import _only_unhealthy, _partition, _print_topic, _sum_of, kafka_uuid


def info(leader: int, replicas: list[int], isr: list[int]) -> SimpleNamespace:
    return SimpleNamespace(
        id=0,
        leader=SimpleNamespace(id=leader),
        replicas=[SimpleNamespace(id=replica) for replica in replicas],
        isr=[SimpleNamespace(id=replica) for replica in isr],
    )


def test_ids_are_spelled_as_kafka_spells_them() -> None:
    assert kafka_uuid("17FxLwL0TL+HktE/wtM24Q") == "17FxLwL0TL-HktE_wtM24Q"


def test_a_partition_without_leader_is_offline() -> None:
    partition = _partition(info(-1, [2, 1], [1]), 1, None, None)

    assert partition["leader"] is None
    assert partition["problems"] == ["offline", "under-replicated"]


def test_a_sum_is_unknown_when_a_part_of_it_is() -> None:
    assert _sum_of([1, 2]) == 3
    assert _sum_of([1, None]) is None
    assert _sum_of([]) == 0


def test_a_topic_is_shown_with_its_settings_and_health(capsys: pytest.CaptureFixture[str]) -> None:
    topic = {
        "name": "clicks",
        "topic_id": "abc",
        "configs": {"retention.ms": {"value": "5", "source": "topic"}},
        "partitions": [
            _partition(info(1, [1, 2], [1, 2]), 1, 0, 7),
            {**_partition(info(-1, [2, 1], [1]), 1, None, None), "partition": 1},
        ],
    }

    _print_topic(topic, is_first=True)
    assert capsys.readouterr().out == (
        "clicks\n"
        "id          abc\n"
        "partitions  2\n"
        "settings    retention.ms=5 (topic)\n"
        "PARTITION  LEADER  REPLICAS  ISR  EARLIEST  LATEST  HEALTH\n"
        "        0       1  1,2       1,2         0       7  ok\n"
        "        1    none  2,1       1           ?       ?  offline, under-replicated\n"
    )
    assert [part["partition"] for part in _only_unhealthy(topic)["partitions"]] == [1]


def test_a_server_that_is_no_broker_is_told_from_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ottla.cli.topics.METADATA_TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:  # it accepts, and says nothing
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert main(["topics", "list", "--bootstrap", address]) == 1

    err = capsys.readouterr().err
    assert err.startswith(f"ottla: {address} accepts connections but does not answer as a Kafka")
    assert err.count("\n") == 1


def test_altering_nothing_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "alter", "clicks"]) == 2
    assert "nothing to alter" in capsys.readouterr().err
