"""`ottla topics describe`: what it prints of what it was told. tests/compat tries it on brokers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ottla.cli.topics.describe import _only_unhealthy, _partition, _print_topic, kafka_uuid


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
