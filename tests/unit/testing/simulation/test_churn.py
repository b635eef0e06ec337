from __future__ import annotations

import asyncio

from ottla.testing.history.replica_log import read_replica_logs
from ottla.testing.simulation.churn import CHURNED, Churn
from tests.support.histories import batch, replica
from tests.support.quiet_cluster import T0, T1, QuietCluster, with_quiet_cluster


def test_topics_come_and_go_while_one_is_written_to() -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("churn")
        notes: list[str] = []
        client.note = notes.append
        churn = Churn(client, [T0, T1], sorted(quiet.cluster.machines), quiet.now_ms)
        churning = asyncio.create_task(churn.run())
        await asyncio.sleep(60)
        assert not churning.done()
        churning.cancel()
        text = "\n".join(notes)
        for what in (f"delete {CHURNED}", "move t-", "delete records of t-", "starts at", "t gets"):
            assert what in text, what
        await churn._admin.delete_topic(CHURNED)
        await churn._create()
        async with asyncio.timeout(60):
            while quiet.cluster.unhealed():
                await asyncio.sleep(0.1)
        client.close()
        await quiet.cluster.shut_down()
        logs = [
            log
            for broker_id, machine in quiet.cluster.machines.items()
            for topic in ("t", CHURNED)
            for log in read_replica_logs(machine.disk, broker_id, "/data", topic)
        ]
        assert churn.problems(logs) == []

    with_quiet_cluster(test)


def test_a_record_that_comes_back_is_a_problem() -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("churn")
        churn = Churn(client, [T0], sorted(quiet.cluster.machines), quiet.now_ms)
        churn._acknowledged.append("a")
        await churn._create()
        await churn._delete()
        client.close()
        assert churn.problems([replica(batch(0, "b"))]) == []
        (problem,) = churn.problems([replica(batch(0, "a"))])
        assert "of a topic that was deleted" in problem

    with_quiet_cluster(test)
