"""The bytes are those that Kafka 3.9's ZkData writes (its order of fields is a hash map's, and
means nothing)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordination import znodes
from ottla.coordination.znodes import (
    BadZnode,
    BrokerInfo,
    BrokerRun,
    Endpoint,
    LeaderAndIsr,
    ProducerIdBlock,
    ReplicaAssignment,
    TopicAssignment,
)
from ottla.kernel.ids import TopicId

BROKER = BrokerInfo(
    endpoints=(
        Endpoint("CLIENT", "SSL", "host1", 9092),
        Endpoint("REPLICATION", "PLAINTEXT", "::1", 9093),
    ),
    rack="dc1",
    timestamp_ms=2233345666,
    jmx_port=9999,
    features={"feature": {"min_version": 1, "max_version": 3}},
)
BROKER_JSON = {
    "version": 5,
    "host": "::1",
    "port": 9093,
    "jmx_port": 9999,
    "timestamp": "2233345666",
    "endpoints": ["CLIENT://host1:9092", "REPLICATION://[::1]:9093"],
    "listener_security_protocol_map": {"CLIENT": "SSL", "REPLICATION": "PLAINTEXT"},
    "features": {"feature": {"min_version": 1, "max_version": 3}},
    "rack": "dc1",
}


def test_a_broker_reads_as_kafka_writes_it() -> None:
    assert json.loads(znodes.encode_broker(BROKER)) == BROKER_JSON
    assert znodes.decode_broker(1, json.dumps(BROKER_JSON).encode()) == BROKER


def test_log_dirs_that_may_not_be_whole_are_named() -> None:
    broker = BROKER._replace(unclean_log_dirs=("/a", "/b"))
    written = {**BROKER_JSON, "unclean_log_dirs": ["/a", "/b"]}
    assert json.loads(znodes.encode_broker(broker)) == written
    assert znodes.decode_broker(1, znodes.encode_broker(broker)) == broker


def test_a_broker_tells_its_own_min_insync_replicas() -> None:
    broker = BROKER._replace(min_insync_replicas=2)
    assert json.loads(znodes.encode_broker(broker)) == {**BROKER_JSON, "min_insync_replicas": 2}
    assert znodes.decode_broker(1, znodes.encode_broker(broker)) == broker


def test_the_last_run_of_a_broker() -> None:
    run = BrokerRun(7, ("/a", "/b"))
    data = znodes.encode_broker_run(run)
    assert data == b'{"version":1,"broker_epoch":7,"log_dirs":["/a","/b"]}'
    assert znodes.decode_broker_run(znodes.broker_run_path(1), data) == run


def test_a_change_of_settings_names_its_entity() -> None:
    path = znodes.CONFIG_CHANGE_PREFIX + "0000000001"
    data = znodes.encode_config_change("/config/topics/t")
    assert data == b'{"version":2,"entity_path":"topics/t"}'
    assert znodes.decode_config_change(path, data) == "/config/topics/t"
    old = b'{"version":1,"entity_type":"brokers","entity_name":"<default>"}'
    assert znodes.decode_config_change(path, old) == "/config/brokers/<default>"


@pytest.mark.parametrize("entity", ["", "topics/", "topics/..", "../topics/t", "topics//t"])
def test_a_change_of_nothing_is_refused(entity: str) -> None:
    data = json.dumps({"version": 2, "entity_path": entity}).encode()
    with pytest.raises(BadZnode, match="no entity is"):
        znodes.decode_config_change("/config/changes/config_change_0000000001", data)


def test_a_broker_without_a_plaintext_listener_has_no_host_for_old_clients() -> None:
    written = json.loads(znodes.encode_broker(BrokerInfo((Endpoint("A", "SSL", "h", 1),))))
    assert (written["host"], written["port"]) == (None, -1)
    assert "rack" not in written


@pytest.mark.parametrize(
    ("content", "endpoint"),
    [
        (
            {"version": 1, "host": "h", "port": 9092, "jmx_port": -1, "timestamp": "1"},
            Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),
        ),
        (
            {"version": 2, "jmx_port": -1, "endpoints": ["SSL://h:9093"]},
            Endpoint("SSL", "SSL", "h", 9093),
        ),
    ],
)
def test_brokers_of_old_versions_are_understood(
    content: dict[str, Any], endpoint: Endpoint
) -> None:
    assert znodes.decode_broker(1, json.dumps(content).encode()).endpoints == (endpoint,)


def test_a_topic_reads_as_kafka_writes_it() -> None:
    topic_id = TopicId(bytes(range(16)))
    assignment = TopicAssignment(
        topic_id,
        {0: ReplicaAssignment((1, 2, 3), (3,), (2,)), 1: ReplicaAssignment((2, 1))},
    )
    content = {
        "version": 3,
        "topic_id": "AAECAwQFBgcICQoLDA0ODw",
        "partitions": {"0": [1, 2, 3], "1": [2, 1]},
        "adding_replicas": {"0": [3]},
        "removing_replicas": {"0": [2]},
    }
    assert json.loads(znodes.encode_topic(assignment)) == content
    assert znodes.decode_topic("t", json.dumps(content).encode()) == assignment


def test_a_topic_from_before_ids_is_understood() -> None:
    old = znodes.decode_topic("t", b'{"version":1,"partitions":{"0":[1]}}')
    assert old == TopicAssignment(None, {0: ReplicaAssignment((1,))})


def test_a_partition_state_reads_as_kafka_writes_it() -> None:
    state = LeaderAndIsr(leader=1, leader_epoch=7, isr=(1, 2), controller_epoch=3)
    data = znodes.encode_partition_state(state)
    assert data == b'{"version":1,"leader":1,"leader_epoch":7,"controller_epoch":3,"isr":[1,2]}'
    assert znodes.decode_partition_state("/p", data) == state
    recovering = state._replace(leader_recovery_state=1)
    data = znodes.encode_partition_state(recovering)
    assert json.loads(data)["leader_recovery_state"] == 1
    assert znodes.decode_partition_state("/p", data) == recovering


def test_a_partition_state_has_fields_of_ours_only_where_they_say_something() -> None:
    state = LeaderAndIsr(-1, 7, (), 3, eligible_leader_replicas=(2,), last_known_elr=(1, 3))
    data = znodes.encode_partition_state(state)
    assert json.loads(data)["eligible_leader_replicas"] == [2]
    assert json.loads(data)["last_known_elr"] == [1, 3]
    assert znodes.decode_partition_state("/p", data) == state


@given(st.dictionaries(st.text(), st.text()))
def test_settings_come_back(config: dict[str, str]) -> None:
    assert znodes.decode_config("/c", znodes.encode_config(config)) == config


def test_a_node_without_data_has_no_settings_and_no_block() -> None:
    assert znodes.decode_config("/c", b"") == {}
    assert znodes.decode_producer_id_block(b"") is None


def test_the_small_ones() -> None:
    assert znodes.encode_cluster_id("x") == b'{"version":"1","id":"x"}'
    assert znodes.decode_cluster_id(b'{"version":"1","id":"x"}') == "x"
    assert znodes.decode_controller(znodes.encode_controller(3, 1)) == 3
    assert znodes.decode_controller_epoch(znodes.encode_controller_epoch(9)) == 9
    block = ProducerIdBlock(1, 1000, 1999)
    assert znodes.decode_producer_id_block(znodes.encode_producer_id_block(block)) == block


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"{",
        b"[]",
        b"{}",
        b'{"leader":1,"leader_epoch":0,"controller_epoch":1}',
        b'{"leader":"1","leader_epoch":0,"controller_epoch":1,"isr":[1]}',
        b'{"leader":true,"leader_epoch":0,"controller_epoch":1,"isr":[1]}',
        b'{"leader":1,"leader_epoch":0.5,"controller_epoch":1,"isr":[1]}',
        b'{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":1}',
        b'{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":["1"]}',
        b'{"leader":null,"leader_epoch":0,"controller_epoch":1,"isr":[1]}',
    ],
)
def test_a_wrong_state_is_refused_by_path(data: bytes) -> None:
    with pytest.raises(BadZnode, match="/the/path"):
        znodes.decode_partition_state("/the/path", data)


def test_unknown_fields_are_ignored() -> None:
    state = znodes.decode_partition_state(
        "/p",
        b'{"version":9,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[],"elr":[{"x":1}]}',
    )
    assert state.leader == 1


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":3,"partitions":{"x":[1]}}',
        b'{"version":3,"partitions":{"0":1}}',
        b'{"version":3,"topic_id":"short","partitions":{}}',
        b'{"version":3}',
    ],
)
def test_a_wrong_topic_is_refused(data: bytes) -> None:
    with pytest.raises(BadZnode, match="/brokers/topics/t"):
        znodes.decode_topic("t", data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":0,"jmx_port":-1}',
        b'{"version":5,"jmx_port":-1,"endpoints":["host:1"]}',
        b'{"version":5,"jmx_port":-1,"endpoints":["A://host"]}',
        b'{"version":5,"jmx_port":-1,"endpoints":["A://host:x"]}',
        b'{"version":5,"jmx_port":-1,"endpoints":"A://host:1"}',
    ],
)
def test_a_wrong_broker_is_refused(data: bytes) -> None:
    with pytest.raises(BadZnode, match="/brokers/ids/1"):
        znodes.decode_broker(1, data)


def test_other_wrong_nodes_are_refused() -> None:
    with pytest.raises(BadZnode, match="/controller_epoch"):
        znodes.decode_controller_epoch(b"x")
    with pytest.raises(BadZnode, match="/latest_producer_id_block"):
        znodes.decode_producer_id_block(b'{"broker":1,"block_start":0,"block_end":"999"}')
    with pytest.raises(BadZnode, match="/c"):
        znodes.decode_config("/c", b'{"config":{"a":1}}')


def test_paths() -> None:
    assert znodes.partition_state_path("t", 3) == "/brokers/topics/t/partitions/3/state"
    assert znodes.broker_config_path(None) == "/config/brokers/<default>"
    assert znodes.broker_config_path(2) == "/config/brokers/2"
    assert znodes.topic_config_path("t") == "/config/topics/t"
    assert znodes.broker_path(1) == "/brokers/ids/1"


@pytest.mark.parametrize(
    ("group_id", "name"),
    [("g-1_a.b", "g-1_a.b"), ("a/b c*", "a%2Fb%20c%2A"), (".", "%2E"), ("..", "%2E%2E")],
)
def test_a_group_is_quoted_in_its_path(group_id: str, name: str) -> None:
    assert znodes.group_config_path(group_id) == f"/config/groups/{name}"
    assert znodes.client_metrics_config_path(group_id) == f"/config/client-metrics/{name}"


@given(st.text(min_size=1))
def test_the_name_of_a_node_says_which_group_it_is_of(group_id: str) -> None:
    folder, _, name = znodes.group_config_path(group_id).rpartition("/")
    assert (folder, znodes.unquoted(name)) == ("/config/groups", group_id)


def test_what_the_nodes_under_admin_ask_for() -> None:
    asked = b'{"version":1,"partitions":[{"topic":"t","partition":3,"replicas":[2,1]}]}'
    assert znodes.decode_reassignment(asked) == {("t", 3): (2, 1)}
    assert znodes.decode_preferred_election(asked) == [("t", 3)]
    assert znodes.decode_log_dir_event("/e", b'{"version":1,"broker":2,"event":1}') == 2
    for bad in (b"", b"{}", b'{"partitions":{}}', b'{"partitions":[1]}', b'{"partitions":[{}]}'):
        with pytest.raises(znodes.BadZnode, match="/admin/reassign_partitions"):
            znodes.decode_reassignment(bad)
        with pytest.raises(znodes.BadZnode, match="/admin/preferred_replica_election"):
            znodes.decode_preferred_election(bad)


def test_a_change_of_settings_names_them_as_kafka_does() -> None:
    change = znodes.encode_config_change(znodes.topic_config_path("t"))
    assert change == b'{"version":2,"entity_path":"topics/t"}'
    change = znodes.encode_config_change(znodes.broker_config_path(None))
    assert change == b'{"version":2,"entity_path":"brokers/<default>"}'
