"""The brokers of one `ottla start --brokers N --restart`: what is killed is started again by their
supervisor."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from tests.support.cluster.broker_cluster import HEAL_TIMEOUT_S, BrokerCluster
from tests.support.ottla_cluster import OttlaCluster
from tests.support.ottla_process import OttlaProcess


class SupervisedProcess(OttlaProcess):
    """One of them, as tests look at it."""

    def __init__(self, broker_id: int, supervisor: OttlaCluster) -> None:
        super().__init__(supervisor.folder)
        self.data_dirs = [supervisor.folder / f"broker-{broker_id}"]
        self._id = broker_id
        self._supervisor = supervisor

    @property
    def pid(self) -> int:
        return int(self._supervisor.brokers()[self._id].pid)

    @property
    def is_running(self) -> bool:
        return self._id in self._supervisor.brokers()


class SupervisedCluster(BrokerCluster):
    """Made and stopped by a fixture."""

    def __init__(self, folder: Path, *, broker_count: int = 3) -> None:
        super().__init__(folder, broker_count=broker_count, settings={})
        args = ["--restart", "--log-level", "info"]
        for name, value in self.settings.items():
            args += ["--set", f"{name}={value}"]
        self._supervisor = OttlaCluster(folder, broker_count, args=args)
        self.brokers = {each: SupervisedProcess(each, self._supervisor) for each in self.brokers}

    def start(self, *broker_ids: int) -> None:
        """All of them, or waits until the supervisor has started these again."""
        if not broker_ids:
            self._supervisor.start()
            addresses = self._supervisor.bootstrap.split(",")
            for broker, address in zip(self.brokers.values(), addresses, strict=True):
                broker.bootstrap = address
        for broker_id in broker_ids:
            deadline_s = time.monotonic() + HEAL_TIMEOUT_S
            while self.metadata_at(broker_id) is None:
                assert time.monotonic() < deadline_s, self._supervisor.logs()
                time.sleep(0.05)

    def kill(self, *broker_ids: int) -> None:
        processes = [self._supervisor.brokers()[broker_id] for broker_id in broker_ids]
        for process in processes:
            process.kill()
        _, left = psutil.wait_procs(processes, timeout=HEAL_TIMEOUT_S)
        assert not left

    def stop(self) -> None:
        self._supervisor.stop()
