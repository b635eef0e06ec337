from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.errors import Failure
from ottla.cli.start import Settings, broker_config, parse
from ottla.cli.supervisor.broker_settings import arguments, plan_brokers


def test_each_has_an_id_a_port_and_a_data_dir_of_its_own_and_all_one_store() -> None:
    plan = plan_brokers(Settings(brokers="3", data_dir="d", listen="[::1]:19092"))
    configs = [broker_config(each) for each in plan.brokers]
    assert [config.broker_id for config in configs] == [1, 2, 3]
    assert [config.log_dirs for config in configs] == [(f"d/broker-{n}",) for n in (1, 2, 3)]
    assert [config.listeners[0].port for config in configs] == [19092, 19093, 19094]
    assert {config.ottla_coordination_file for config in configs} == {"d/cluster.db"}
    assert (plan.folder, plan.cluster_file) == ("d", "d/cluster.db")


def test_without_options() -> None:
    plan = plan_brokers(Settings(brokers="2"))
    assert [each.listen for each in plan.brokers] == ["localhost:9092", "localhost:9093"]
    assert plan.folder == "ottla-data"


def test_any_port_is_any_port_for_each() -> None:
    plan = plan_brokers(Settings(brokers="2", listen="h:0", advertise="other:7000"))
    assert [each.listen for each in plan.brokers] == ["h:0", "h:0"]
    assert [each.advertise for each in plan.brokers] == ["other:7000", "other:7001"]


@pytest.mark.parametrize(
    ("count", "replicas", "min_isr"), [("1", 1, 1), ("2", 2, 1), ("3", 3, 2), ("5", 3, 2)]
)
def test_internal_topics_are_as_durable_as_kafkas_where_there_are_enough_brokers(
    count: str, replicas: int, min_isr: int
) -> None:
    config = broker_config(plan_brokers(Settings(brokers=count)).brokers[0])
    assert config.offsets_topic_replication_factor == replicas
    assert config.transaction_state_log_replication_factor == replicas
    assert config.transaction_state_log_min_isr == min_isr
    assert {"offsets.topic.replication.factor", "transaction.state.log.replication.factor"} <= set(
        config.given
    )
    assert config.default_replication_factor == 1
    assert config.min_insync_replicas == 1


def test_what_is_given_for_all_is_for_all(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("transaction.state.log.min.isr=1\nottla.coordination.file=elsewhere.db\n")
    given = Settings(
        brokers="3",
        restart=True,
        config=str(file),
        set=("num.partitions=7",),
        log_level="info",
        log_json=True,
    )
    plan = plan_brokers(given)
    assert plan.cluster_file == "elsewhere.db"
    for each in plan.brokers:
        assert each.brokers is None
        assert not each.restart
        assert parse(arguments(each)[1:]) == each
        config = broker_config(each)
        assert config.transaction_state_log_min_isr == 1
        assert config.num_partitions == 7
        assert config.ottla_coordination_file == "elsewhere.db"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings(brokers="0"), "--brokers 0: give a number from 1 on"),
        (Settings(brokers="x"), "--brokers x: give a number from 1 on"),
        (
            Settings(brokers="3", zookeeper="h:1"),
            "--brokers is for brokers of one machine, which need no ZooKeeper; with --zookeeper, "
            "start each by itself",
        ),
        (
            Settings(brokers="3", broker_id="7"),
            "--broker-id is for one broker: --brokers counts from 1",
        ),
        (
            Settings(brokers="3", set=("node.id=7",)),
            "node.id is for one broker; with --brokers, remove it",
        ),
        (
            Settings(brokers="3", set=("log.dirs=d",)),
            "log.dirs is for one broker; with --brokers, give --data-dir, from which they count",
        ),
        (
            Settings(brokers="3", set=("listeners=PLAINTEXT://:1",)),
            "listeners is for one broker; with --brokers, give --listen, from which they count",
        ),
        (
            Settings(brokers="3", listen="9092"),
            "--listen 9092: give it as HOST:PORT, such as localhost:9092",
        ),
        (
            Settings(brokers="3", listen="h:65534"),
            "--listen h:65534: 3 brokers need the ports to 65536, and there are 65535",
        ),
    ],
)
def test_what_is_not_for_several_brokers(settings: Settings, message: str) -> None:
    with pytest.raises(Failure) as caught:
        plan_brokers(settings)
    assert (str(caught.value), caught.value.exit_code) == (message, 2)


def test_an_option_is_stronger_than_a_setting_for_one() -> None:
    plan = plan_brokers(
        Settings(
            brokers="1",
            data_dir="d",
            listen="h:1",
            set=("log.dirs=x", "listeners=PLAINTEXT://:2"),
        )
    )
    config = broker_config(plan.brokers[0])
    assert config.log_dirs == ("d/broker-1",)
    assert [listener.port for listener in config.listeners] == [1]
