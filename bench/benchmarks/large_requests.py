"""How long a produce takes while another client sends the largest requests of administrators."""

from __future__ import annotations

from contextlib import ExitStack

from bench import client, topics
from bench.benchmark import Measures, Setting
from bench.broker import BenchError, Broker

_PARTITIONS = 1000
_NAMES = 20_000
_SECONDS = 10.0


class LargeRequests:
    name = "large_requests"
    needs_java = False
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker
        self._seconds = setting.effort.seconds(_SECONDS)

    def prepare(self) -> None:
        pass

    def measure(self) -> Measures:
        broker = self._broker
        with ExitStack() as stack:
            large = stack.enter_context(topics.temporary(broker, "large", _PARTITIONS))
            beside = stack.enter_context(topics.temporary(broker, "beside"))
            asker = stack.enter_context(
                client.Running("large_requests", broker.address, large, _PARTITIONS, _NAMES)
            )
            produced = client.run_python(
                "sync_producer", broker.address, broker.pid, beside, 1, 1, 1.0, self._seconds
            )
            asker.finish()
            if not asker.report(60)["count"]:
                raise BenchError(f"{broker.name} has answered none of the large requests")
        return {"large_p99_us": produced["p99_us"], "large_p50_us": produced["p50_us"]}

    def clean_up(self) -> None:
        pass
