"""`ottla cluster`, `ottla reassign` and `ottla elect-leaders` on three brokers: of Ottla, and with
--full of Apache Kafka too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.test_cli import Cli
from tests.support.counts import IS_FULL
from tests.support.need import need_apache_kafka
from tests.support.side_by_side import SUBJECTS
from tests.support.three_brokers import ThreeBrokers

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module", params=SUBJECTS if IS_FULL else SUBJECTS[:1])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThreeBrokers]:
    is_ottla = request.param == "Ottla"
    if not is_ottla:
        need_apache_kafka()
    brokers = ThreeBrokers(tmp_path_factory.mktemp("three-brokers"), is_ottla=is_ottla)
    try:
        brokers.start()
        yield brokers
    finally:
        brokers.stop()


@pytest.fixture
def cli(cluster: ThreeBrokers, tmp_path: Path) -> Cli:
    return Cli(cluster.bootstrap, tmp_path)


def plan_file(folder: Path, printed: Any) -> str:
    path = folder / "plan.json"
    path.write_text(json.dumps(printed))
    return str(path)


def replicas(cluster: ThreeBrokers, topic: str) -> list[list[int]]:
    return [list(one.replicas) for one in cluster.partitions(topic)]


def test_partitions_are_spread_over_the_brokers(
    cluster: ThreeBrokers, cli: Cli, tmp_path: Path
) -> None:
    cluster.create("spread", [1], [1], [1])
    cluster.produce("spread", 300)
    assert "3 partitions change" in cli.out(
        "reassign", "plan", "--topic", "spread", "--replication-factor", "2"
    )
    planned = cli.json("reassign", "plan", "--topic", "spread")
    assert planned["version"] == 1
    saved = tmp_path / "back.json"
    done = cli.out(
        *("reassign", "execute", plan_file(tmp_path, planned)),
        *("--throttle", "100MB", "--save-current", str(saved)),
    )
    moved = len(planned["partitions"])
    assert done.splitlines()[-1] == f"moved {moved} partitions"
    assert sorted(replicas(cluster, "spread")) == [[1], [2], [3]]
    status = cli.json("reassign", "status")
    assert status == {"partitions": [], "throttle_bytes_s": None, "throttle_removed": False}
    assert "nothing to move" in cli.out("reassign", "plan", "--topic", "spread")
    assert cli.json("reassign", "execute", str(saved))["done"]
    assert replicas(cluster, "spread") == [[1], [1], [1]]


def test_a_slow_move_is_watched_and_cancelled(
    cluster: ThreeBrokers, cli: Cli, tmp_path: Path
) -> None:
    cluster.create("slow", [1, 2])
    cluster.produce("slow", 3000)
    wanted = {"version": 1, "partitions": [{"topic": "slow", "partition": 0, "replicas": [3, 2]}]}
    begun = cli.out(
        *("reassign", "execute", plan_file(tmp_path, wanted), "--throttle", "20kB", "--no-wait"),
    )
    assert begun.splitlines()[-1] == "began to move 1 partition"
    status = cli.json("reassign", "status")
    (part,) = status["partitions"]
    assert (part["topic"], sorted(part["from"]), part["to"]) == ("slow", [1, 2], [3, 2])
    assert part["size_bytes"] > 2_000_000 > part["copied_bytes"]
    assert (status["throttle_bytes_s"], status["throttle_removed"]) == (20_000, False)
    assert "is being moved already" in cli.fails("reassign", "plan", "--topic", "slow")
    assert cli.out("reassign", "cancel", "--topic", "slow") == "cancelled 1 partition\n"
    cluster.wait_until("slow", lambda one: sorted(one.replicas) == [1, 2])
    assert cli.json("reassign", "status")["throttle_bytes_s"] is None


def test_a_broker_goes_and_comes_back(cluster: ThreeBrokers, cli: Cli) -> None:
    cluster.create("led", [3, 1, 2], [1, 2, 3])
    cluster.kill_3()
    cluster.wait_until("led", lambda one: one.leader != 3 and 3 not in one.isrs)
    try:
        found = cli.json("cluster")
        assert found["missing_brokers"] == [3]
        assert found["problems"]["under-replicated"] >= 2
        assert found["problems"]["not on preferred leader"] >= 1
        assert "broker 3 is missing" in cli.out("cluster")
        refused = cli("elect-leaders", "--topic", "led", exit_code=1)
        assert b"PREFERRED_LEADER_NOT_AVAILABLE" in refused.stdout
    finally:
        cluster.start_3()
    cluster.wait_until("led", lambda one: len(one.isrs) == 3)
    (elected,) = cli.json("elect-leaders", "--topic", "led:0")["partitions"]
    assert (elected["leader"], elected["error"]) == (3, None)
    cluster.wait_until("led", lambda one: one.leader == one.replicas[0])
    assert "preferred replica" in cli.out("elect-leaders", "--topic", "led")
    assert cli.out("elect-leaders", "--unclean") == "every partition has a leader\n"
    counters = [broker["counters"] for broker in cli.json("cluster")["brokers"]]
    if cluster.is_ottla:
        assert sum(one["active_controller"] for one in counters) == 1
        assert sum(one["elections"] for one in counters) >= 1
        assert sum(one["isr_expands"] for one in counters) >= 2
        assert sum(one["unclean_elections"] for one in counters) == 0
        assert {one["session"] for one in counters} == {"connected"}
    else:
        assert counters == [None, None, None]
