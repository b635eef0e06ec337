"""What is there, what is not, and how errors are told."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cli.client import Cluster
from ottla.cli.errors import Failure
from ottla.cli.reassign.read import (
    ClusterState,
    check_assignment,
    check_brokers,
    connected,
    read_state,
    selected,
    words_of,
)
from ottla.client.blocking import ConnectionLost
from ottla.kernel.errors import ErrorCode, KafkaError
from tests.unit.cli.reassign.fake_cluster import FakeCluster


def state_of(fake: FakeCluster) -> ClusterState:
    admin: Any = fake
    return read_state(admin, admin)


def test_what_moves_is_where_it_will_be(fake: FakeCluster) -> None:
    fake.move(("clicks", 0), [3])
    state = state_of(fake)
    assert (state.replicas["clicks", 0], state.replicas["clicks", 1]) == ((3,), (1,))
    assert state.moving["clicks", 0].origin == (1,)
    assert (state.topics, list(state.racks)) == (["clicks", "views"], [1, 2, 3])


def test_partitions_are_chosen(fake: FakeCluster) -> None:
    state = state_of(fake)
    assert selected(state, {}) == sorted(fake.replicas)
    assert selected(state, {"clicks": [2, 0], "views": None}) == [
        ("clicks", 0),
        ("clicks", 2),
        ("views", 0),
    ]
    with pytest.raises(Failure, match="did you mean 'clicks'"):
        selected(state, {"click": None})
    with pytest.raises(Failure, match="has 1 partition, and no 1, 7 among them"):
        selected(state, {"views": [7, 1]})


def test_brokers_must_be_there(fake: FakeCluster) -> None:
    check_brokers(state_of(fake), [1, 3])
    with pytest.raises(Failure, match="there is no broker 8, 9; the cluster has 1, 2, 3"):
        check_brokers(state_of(fake), [9, 1, 8])


def test_one_that_is_down_may_keep_what_it_has(fake: FakeCluster) -> None:
    del fake.racks[2]
    check_assignment(state_of(fake), {("views", 0): (2, 3)})
    with pytest.raises(Failure, match="there is no broker 2"):
        check_assignment(state_of(fake), {("clicks", 0): (2,)})


def test_what_moves_elsewhere_is_not_begun(fake: FakeCluster) -> None:
    fake.polls = 2
    fake.move(("clicks", 0), [3])
    check_assignment(state_of(fake), {("clicks", 0): (3,)})
    with pytest.raises(Failure, match="clicks:0 is being moved to 3 already"):
        check_assignment(state_of(fake), {("clicks", 0): (2,)})


def test_errors_in_words() -> None:
    assert words_of(KafkaError(ErrorCode.NOT_CONTROLLER, "Elsewhere.")) == (
        "Elsewhere (NOT_CONTROLLER)"
    )
    assert words_of(KafkaError(ErrorCode.NOT_CONTROLLER, "NOT_CONTROLLER")) == "NOT_CONTROLLER"
    assert "older than Kafka 2.4" in words_of(KafkaError(ErrorCode.UNSUPPORTED_VERSION, "x"))


def test_connections() -> None:
    with (
        pytest.raises(Failure, match="cannot speak SSL yet"),
        connected(Cluster("localhost:1", {"security.protocol": "SSL"})),
    ):
        pass
    with (
        pytest.raises(Failure, match="the cluster at localhost:1: gone"),
        connected(Cluster("localhost:1", {})),
    ):
        raise ConnectionLost("gone")
    with pytest.raises(Failure, match="NOT_CONTROLLER"), connected(Cluster("localhost:1", {})):
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "no")
