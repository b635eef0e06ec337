"""100 groups, each of which commits every 100 ms."""

from __future__ import annotations

from bench import client, groups, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker

GROUPS = 100
INTERVAL_S = 0.1


class GroupCommits:
    """How long a commit takes, at a rate that both brokers bear."""

    name = "group_commits"
    needs_java = False
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker
        self._warm_up_s = setting.effort.seconds(2.0)
        self._seconds = setting.effort.seconds(10.0)

    def prepare(self) -> None:
        pass

    def measure(self) -> Measures:
        with topics.temporary(self._broker, "commits") as topic:
            for number in range(GROUPS):
                groups.wait_for_coordinator(self._broker, f"committer-{number}", topic)
            report = client.run_python(
                "group_committers",
                self._broker.address,
                self._broker.pid,
                topic,
                GROUPS,
                INTERVAL_S,
                self._warm_up_s,
                self._seconds,
            )
        return {
            "commit_p50_us": report["p50_us"],
            "commit_p50_us.cpu": client.spent(report).cpu_us,
            "commit_p99_us": report["p99_us"],
        }

    def clean_up(self) -> None:
        pass
