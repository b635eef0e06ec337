from __future__ import annotations

import asyncio

import pytest

from ottla.testing.history.anomaly import AnomalyKind
from ottla.testing.history.checker import find_anomalies
from ottla.testing.history.events import Ended
from ottla.testing.simulation.idempotent_producer import IdempotentProducer
from ottla.testing.simulation.transactional_producer import TransactionalProducer
from tests.support.quiet_cluster import T0, T1, QuietCluster, with_quiet_cluster


@pytest.mark.parametrize("is_version_2", [False, True])
def test_what_is_read_is_copied_in_transactions_that_commit_or_abort(is_version_2: bool) -> None:
    async def test(quiet: QuietCluster) -> None:
        writer, copier = quiet.client("p"), quiet.client("copier")
        producer = IdempotentProducer(writer, [T0], quiet.now_ms, lambda _: None)
        copying = TransactionalProducer(
            copier,
            T0,
            [T1],
            quiet.now_ms,
            is_version_2=is_version_2,
            acknowledged=quiet.acknowledged.append,
        )
        tasks = [asyncio.create_task(each.run()) for each in (producer, copying)]
        await asyncio.sleep(10)
        for client in (writer, copier):
            client.is_stopping = True
        await asyncio.gather(*tasks)
        assert copying.commit_count > 0
        assert copying.abort_count > 0
        assert len(quiet.events(Ended)) >= copying.commit_count + copying.abort_count
        anomalies = {each.kind for each in find_anomalies(quiet.history)}
        assert anomalies <= {AnomalyKind.UNSEEN}, "nobody reads the copies"
        for client in (writer, copier):
            client.close()

    with_quiet_cluster(test)


def test_of_two_with_one_id_each_fences_the_other_and_nothing_is_copied_twice() -> None:
    async def test(quiet: QuietCluster) -> None:
        clients = [quiet.client(name) for name in ("p", "one", "two")]
        producer = IdempotentProducer(clients[0], [T0], quiet.now_ms, lambda _: None)
        rivals = [
            TransactionalProducer(
                client,
                T0,
                [T1],
                quiet.now_ms,
                is_version_2=client.name == "one",
                acknowledged=lambda _: None,
                transactional_id="rivals",
            )
            for client in clients[1:]
        ]
        runs = [producer.run(), *(each.run() for each in rivals)]
        tasks = [asyncio.create_task(run) for run in runs]
        await asyncio.sleep(20)
        for client in clients:
            client.is_stopping = True
        await asyncio.gather(*tasks)
        ended_count = len(quiet.events(Ended))
        assert all(each.commit_count > 0 for each in rivals)
        assert ended_count > sum(each.commit_count + each.abort_count for each in rivals), "fenced"
        anomalies = {each.kind for each in find_anomalies(quiet.history)}
        assert anomalies <= {AnomalyKind.UNSEEN}, "nobody reads the copies"
        for client in clients:
            client.close()

    with_quiet_cluster(test)
