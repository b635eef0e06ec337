"""One broker is a cluster, too: what clients of many kinds do and see over its kills is one sound
history."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.cluster.conftest import MakeWorkload
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.counts import count


@pytest.mark.timeout(600)
def test_killed_over_and_over(tmp_path: Path, make_workload: MakeWorkload) -> None:
    cluster = BrokerCluster(tmp_path, broker_count=1)
    cluster.start()
    try:
        with make_workload(cluster, "alone") as load:
            for _ in range(count(full=10, quick=2)):
                cluster.kill(1)
                cluster.start(1)
                load.wait_for_progress()
    finally:
        cluster.stop()
